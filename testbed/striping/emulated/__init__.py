"""Striped files on real switches, or over loopback where there are none; and users' programs on the same hosts and
listeners."""
