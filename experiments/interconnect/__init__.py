"""Zarza 2011: virtual cut-through routers, NAC and FT-DRB in the simulator."""
