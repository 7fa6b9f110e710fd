"""The networks and end points that the streaming experiments share."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from testbed.model.studies.study import Points, grid


@dataclass(frozen=True, kw_only=True)
class StreamedNetwork:
    """A catalogue name and the two nodes between which the experiments stream."""

    title: str
    name: str
    source: str
    sink: str

    @property
    def ends(self) -> tuple[str, str, str]:
        """Name, source, sink."""
        return self.name, self.source, self.sink


NETWORKS = (
    StreamedNetwork(title="Swiss-T1", name="swiss-t1", source="s1", sink="s6"),
    StreamedNetwork(title="Optical cloud", name="optical-cloud", source="x1", sink="x14"),
    StreamedNetwork(title="Mobile network", name="manet:nodes=40,seed=3", source="n0", sink="n39"),
)


def points_over(networks: Iterable[tuple[str, str, str]], **fields: Any) -> Points:
    """Every combination of values (``grid``) over each network, from its source to its sink; networks vary slowest."""
    return [
        {"network": name, "source": source, "sink": sink} | point
        for name, source, sink in networks
        for point in grid(**fields)
    ]
