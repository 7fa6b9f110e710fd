"""Zarza 2011: virtual cut-through routers, NAC and FT-DRB in the simulator."""

CHAPTER = 5
"""The chapter of our documentation in which its studies stand."""
