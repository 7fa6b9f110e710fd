"""A striped access on real switches, or over loopback where there are none."""
