"""Schedulers of other authors, through the same door as ours: frames by linear programme, and two-level rotation
between groups."""
