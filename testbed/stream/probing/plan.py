"""The plan of a probe: a value."""

from dataclasses import dataclass

from testbed.model.short_repr import ShortRepr
from testbed.stream.plan import StreamPlan
from topologies.network import LinkId, Network


@dataclass(frozen=True, kw_only=True, repr=False)
class ProbePlan(ShortRepr):
    """``plan`` is streamed twice with ``link`` down, at N and at N - 1, so many blocks each time."""

    plan: StreamPlan
    link: LinkId
    blocks: int

    @property
    def network(self) -> Network:
        return self.plan.network
