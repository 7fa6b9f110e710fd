"""Traffics: of allocations, patterns, fat trees, files."""
