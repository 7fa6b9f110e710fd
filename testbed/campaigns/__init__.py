"""Campaigns: one study over many networks, end points, methods and tolerances, described in one file. Pure: values in,
rows out."""
