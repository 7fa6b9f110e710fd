"""The keys with which the documents of runs between two nodes begin."""

from typing import Protocol

from topologies import JsonObject, Network


class BetweenTwoNodes(Protocol):
    """A plan whose packets go from one node to another one."""

    @property
    def network(self) -> Network: ...
    @property
    def source(self) -> str: ...
    @property
    def sink(self) -> str: ...
    @property
    def seed(self) -> int: ...


def document_head(fabric: str, plan: BetweenTwoNodes, **routed_by: str) -> JsonObject:
    """Return the first keys of a document.

    Args:
        fabric: The fabric on which the plan ran.
        plan: The plan.
        routed_by: The name of its routing, under the key of this document.
    """
    return {
        "fabric": fabric,
        "network": plan.network.name,
        "source": plan.source,
        "sink": plan.sink,
        **routed_by,
        "seed": plan.seed,
    }
