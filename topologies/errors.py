"""Errors of topologies: what is wrong, where, and how to mend it, in one line."""

from __future__ import annotations


class TopologyError(ValueError):
    """A network, a name of one, or a file of one that cannot be used."""


class NoPathError(TopologyError):
    """Two nodes between which no path of links leads."""
