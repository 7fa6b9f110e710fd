"""The first keys of the JSON documents of runs between two nodes."""

from typing import Protocol

from topologies import JsonObject, Network


class BetweenTwoNodes(Protocol):
    """A plan whose packets go from one node to another one."""

    @property
    def network(self) -> Network:
        """The network of the run."""

    @property
    def source(self) -> str:
        """The node at which the packets begin."""

    @property
    def sink(self) -> str:
        """The node at which the packets end."""

    @property
    def seed(self) -> int:
        """The seed of the plan's random choices."""


def document_head(fabric: str, plan: BetweenTwoNodes, **routed_by: str) -> JsonObject:
    """Return the first keys of a document.

    Args:
        fabric: The fabric on which the plan ran.
        plan: The plan.
        routed_by: One keyword argument: the name of the plan's routing, under the key that it has
            in this document, such as ``method``.
    """
    return {
        "fabric": fabric,
        "network": plan.network.name,
        "source": plan.source,
        "sink": plan.sink,
        **routed_by,
        "seed": plan.seed,
    }
