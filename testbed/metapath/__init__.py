"""Plain streams whose routing reacts to failures: FT-DRB on switches, and what it is compared with."""
