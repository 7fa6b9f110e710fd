"""Capabilities, load and description of the machine on which a run takes place."""
