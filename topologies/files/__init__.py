"""Reads network files in JSON, in GraphML and in formats of other programs, and writes JSON."""
