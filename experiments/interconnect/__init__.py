"""Zarza 2011: virtual cut-through routers, NAC and FT-DRB in the simulator."""

# The chapter of our documentation that describes these studies.
CHAPTER = 5
