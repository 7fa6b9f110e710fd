"""Mininet builds the networks: its own life cycle and classes, whose effects on the kernel are made in batches."""
