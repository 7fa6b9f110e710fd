"""Builds networks with Mininet, whose classes make their changes to the kernel in batches."""
