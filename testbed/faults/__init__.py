"""Faults: their values and grammar, failure traces, and impairments of links. No I/O."""
