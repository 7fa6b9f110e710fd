"""Comparisons of the simulator with other simulators of interconnection networks."""
