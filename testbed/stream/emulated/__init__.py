"""A stream's plan on real switches."""
