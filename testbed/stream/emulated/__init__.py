"""Runs the plan of a stream on real switches."""
