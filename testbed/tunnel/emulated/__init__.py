"""Runs tunnel trials on emulated hosts and switches."""
