"""Capillary routing, exact and in floats, and its certificate."""
