"""Uncoded streams whose routing reacts to failures: FT-DRB on switches, and its rivals."""
