"""Campaigns: a study over many networks, end points, methods and tolerances, described in a file.

Except for the adapters, the package has no I/O.
"""
