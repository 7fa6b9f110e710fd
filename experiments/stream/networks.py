"""The networks and end points that the streaming experiments share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class StreamedNetwork:
    """A catalogue name and the two nodes between which the experiments stream."""

    title: str
    name: str
    source: str
    sink: str


NETWORKS = (
    StreamedNetwork(title="Swiss-T1", name="swiss-t1", source="s1", sink="s6"),
    StreamedNetwork(title="Optical cloud", name="optical-cloud", source="x1", sink="x14"),
    StreamedNetwork(title="Mobile network", name="manet:nodes=40,seed=3", source="n0", sink="n39"),
)
