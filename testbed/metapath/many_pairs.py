"""Plain streams of many pairs at once on one network whose cables die together: the plan."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from testbed.errors import InputError
from testbed.faults.cable_faults import random_faults
from testbed.faults.fault import Fault
from testbed.metapath.labelled_paths import cable_number
from testbed.metapath.options import MetapathOptions
from testbed.metapath.plan import MetapathPlan
from topologies.network import Network

PairsRouting = Literal["ft-drb", "single", "recomputed", "capillary"]
"""FT-DRB; one path for good; one path that the controller computes again; a capillary route whose labels take turns."""
REPORT_S, SILENCE_S = 0.05, 0.3
"""From one report of a sink to the next; since when a packet in none is missing: many pairs share the processors."""
KNOWN_PATHS = 8
_OUTLAST_S = 30.0


@dataclass(frozen=True, kw_only=True)
class ManyPairsPlan:
    """``pairs``: (source, sink) hosts, each host once; ``faults``: cuts that begin together and outlast the
    streams. InputError otherwise."""

    network: Network
    pairs: tuple[tuple[str, str], ...]
    routing: PairsRouting = "ft-drb"
    rate_pps: float = 100.0
    packet_bytes: int = 256
    faults: tuple[Fault, ...] = ()
    duration_s: float = 4.0
    seed: int = 1
    options: MetapathOptions = field(default_factory=lambda: MetapathOptions(silence_s=SILENCE_S))

    def __post_init__(self) -> None:
        if self.routing not in get_args(PairsRouting):
            raise InputError(f"routing {self.routing!r}; give {', '.join(get_args(PairsRouting))}")
        ends = [end for pair in self.pairs for end in pair]
        if not self.pairs or len(set(ends)) < len(ends):
            raise InputError("a host is the end of two pairs, or there is no pair; give each host once")
        lasting = all(f.kind == "down" and f.stop_s > self.duration_s for f in self.faults)
        if not lasting or len({f.start_s for f in self.faults}) > 1:
            raise InputError("faults of many pairs are cuts that begin together and outlast the streams")

    @cached_property
    def dead(self) -> frozenset[int]:
        """Numbers of the cables that die."""
        return frozenset(cable_number(self.network, fault.link) for fault in self.faults)

    @property
    def failed_s(self) -> float:
        """When the cables die; the end of the run where none does."""
        return self.faults[0].start_s if self.faults else self.duration_s

    def pair_plan(self, number: int) -> MetapathPlan:
        """One pair's stream by itself."""
        source, sink = self.pairs[number]
        return MetapathPlan(
            network=self.network,
            source=source,
            sink=sink,
            routing="ft-drb" if self.routing == "ft-drb" else "single",
            rate_pps=self.rate_pps,
            packet_bytes=self.packet_bytes,
            duration_s=self.duration_s,
            options=self.options,
            report_s=REPORT_S,
            seed=self.seed + number,
        )


def draw_plan(
    network: Network, pairs: int, dead_cables: int, *, seed: int, routing: PairsRouting, failed_s: float,
    duration_s: float, rate_pps: float,
) -> ManyPairsPlan:  # fmt: skip
    """Pairs of hosts drawn by chance, each host at most once, and so many cables between switches that die at
    ``failed_s``.

    The same seed draws the same for every routing. The switches stay joined.
    """
    hosts = [node.id for node in network.hosts]
    if 2 * pairs > len(hosts):
        raise InputError(f"{pairs} pairs need {2 * pairs} hosts; {network.name} has {len(hosts)}")
    order = np.random.default_rng([seed, 5]).permutation(len(hosts))[: 2 * pairs].tolist()
    ends = [hosts[k] for k in order]
    drawn = random_faults(network, dead_cables, seed=[seed, 7], start_s=(failed_s, failed_s))
    return ManyPairsPlan(
        network=network,
        pairs=tuple(zip(ends[:pairs], ends[pairs:], strict=True)),
        routing=routing,
        rate_pps=rate_pps,
        faults=tuple(replace(f, stop_s=duration_s + _OUTLAST_S) for f in drawn),
        duration_s=duration_s,
        seed=seed,
    )


def crosses_dead(plan: ManyPairsPlan, links: Sequence[int]) -> bool:
    """Whether a path (indices of links) goes over a cable that dies."""
    network = plan.network
    return any(cable_number(network, network.links[link].id) in plan.dead for link in links)
