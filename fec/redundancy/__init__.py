"""Computes how many packets a block requires.

The modules compute block sizes, ROR and orders of labels, and adapt the block size to losses.
"""
