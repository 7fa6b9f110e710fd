"""Faults in time: Poisson streams of random ones, a link that flaps, a node that is down.

Each expands to plain faults, by a seed where chance has a part. Faults may overlap, on one link too.
"""

import itertools
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from testbed.errors import InputError
from testbed.faults.fault import Direction, Fault, FaultKind, check_manner
from topologies.network import LinkId, Network
from topologies.text.json_types import JsonObject

Lengths = Literal["fixed", "exponential"]
_OUTLASTS_S = 1.0


@dataclass(frozen=True, kw_only=True)
class PoissonFaults:
    """Every cable fails independently, ``rate_per_s`` times a second on average, each time for ``lasts_s`` seconds (the
    mean, where ``lengths`` is exponential). The first failure comes at ``start_s`` or later; ``most`` bounds their
    number.

    Raises InputError for a rate or length that is not above 0, and for a manner in which links do not fail.
    """

    rate_per_s: float
    lasts_s: float
    start_s: float = 0.8
    lengths: Lengths = "fixed"
    kind: FaultKind = "down"
    direction: Direction = "both"
    loss_fraction: float = 1.0
    most: int = 5000

    def __post_init__(self) -> None:
        for name in ("rate_per_s", "lasts_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"random faults: {name} {value}; give a number above 0")
        if not (math.isfinite(self.start_s) and self.start_s >= 0):
            raise InputError(f"random faults: start_s {self.start_s}; give 0 or more")
        if self.lengths not in ("fixed", "exponential"):
            raise InputError(f"random faults: lengths {self.lengths!r}; give fixed or exponential")
        check_manner("random faults", self.kind, self.direction, self.loss_fraction)

    @property
    def unavailability(self) -> float:
        """Share of time in which a cable has a fault in force: 1 - exp(-rate x length), as in a queue with infinitely
        many servers."""
        return -math.expm1(-self.rate_per_s * self.lasts_s)


def outlasting(faults: Iterable[Fault], duration_s: float) -> tuple[Fault, ...]:
    """The faults, those without an end given one a second after a run that lasts so long: they end with it.

    >>> [f.stop_s for f in outlasting([Fault(link=("a", "b", 0), start_s=1.0)], 5.0)]
    [6.0]
    """
    return tuple(replace(f, stop_s=duration_s + _OUTLASTS_S) if f.permanent else f for f in faults)


def poisson_faults(links: Iterable[LinkId], faults: PoissonFaults, *, until_s: float, seed: int) -> tuple[Fault, ...]:
    """The faults of these cables (either direction names one), all ended by ``until_s``, by start.

    Each cable draws from a stream of chance of its own, so that its faults do not depend on which other cables there
    are. Raises InputError where there would be more than ``faults.most``.

    >>> spec = PoissonFaults(rate_per_s=0.5, lasts_s=1.0)
    >>> some = poisson_faults([("a", "b", 0)], spec, until_s=60.0, seed=1)
    >>> all(0.8 <= f.start_s < f.stop_s <= 60.0 for f in some), len(some) > 10
    (True, True)
    """
    found: list[Fault] = []
    manner: JsonObject = {name: getattr(faults, name) for name in ("kind", "direction", "loss_fraction")}
    for link in cables_of(links):
        chance = random.Random(f"{seed}/{link[0]}/{link[1]}/{link[2]}")
        at = faults.start_s
        while (at := at + chance.expovariate(faults.rate_per_s)) < until_s:
            lasts = faults.lasts_s if faults.lengths == "fixed" else chance.expovariate(1 / faults.lasts_s)
            start, stop = round(at, 4), round(min(until_s, at + max(lasts, 1e-3)), 4)
            if stop > start:
                found.append(Fault(link=link, start_s=start, stop_s=stop, **manner))
            if len(found) > faults.most:
                raise InputError(
                    f"random faults: more than {faults.most} in {until_s:g} s; lower rate_per_s, or raise most"
                )
    return tuple(sorted(found, key=lambda f: (f.start_s, f.link)))


def flapping_faults(
    link: LinkId, *, period_s: float, down_s: float, start_s: float, stop_s: float, kind: FaultKind = "down"
) -> tuple[Fault, ...]:
    """A link that fails for ``down_s`` at the beginning of every whole period between ``start_s`` and ``stop_s``.

    Raises InputError unless 0 < down < period and there are 1 to 10000 periods.

    >>> [(f.start_s, f.stop_s) for f in flapping_faults(("a", "b", 0), period_s=1, down_s=0.3, start_s=2, stop_s=4)]
    [(2.0, 2.3), (3.0, 3.3)]
    """
    if not 0 < down_s < period_s:
        raise InputError(f"flapping link: down {down_s:g} s of every {period_s:g} s; give 0 < down < period")
    count = math.floor((stop_s - start_s) / period_s + 1e-9)
    if not 1 <= count <= 10_000:
        raise InputError(f"flapping link: {count} periods between {start_s:g} and {stop_s:g} s; give 1 to 10000")
    begins = (start_s + k * period_s for k in range(count))
    return tuple(
        Fault(link=link, kind=kind, start_s=round(at, 4), stop_s=round(at + down_s, 4)) for at in map(float, begins)
    )


def node_faults(network: Network, node: str, *, start_s: float, stop_s: float) -> tuple[Fault, ...]:
    """A node that is down: all of its cables fail at once. Raises InputError for a node that is not there or has no
    cables."""
    if not isinstance(node, str) or node not in network.node_index:
        raise InputError(f"fault on node {node!r}: {network.name!r} has no such node")
    touching = [link.id for link in network.links if node in (link.source, link.target)]
    if not touching:
        raise InputError(f"fault on node {node!r}: it has no links that could fail")
    return tuple(Fault(link=link, kind="down", start_s=start_s, stop_s=stop_s) for link in cables_of(touching))


def cables_of(links: Iterable[LinkId]) -> tuple[LinkId, ...]:
    """One direction of every cable among the links, the one whose ends are in order, sorted."""
    return tuple(sorted({min((a, b, key), (b, a, key)) for a, b, key in links}))


def overlapping(faults: Sequence[Fault]) -> bool:
    """Whether any two faults are in force at one time."""
    ordered = sorted(faults, key=lambda f: f.start_s)
    latest_s = itertools.accumulate((fault.stop_s for fault in ordered), max)
    return any(fault.start_s < until_s for fault, until_s in zip(ordered[1:], latest_s, strict=False))
