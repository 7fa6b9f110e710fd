"""Namespaces of a run's own, gone with it."""
