"""What a fault is: one link of a network fails, or is impaired, for a while or permanently.

Every workload plans, carries out and judges this one value. What fails in a richer way expands to several of it, by a
seed where chance has a part: a node that is down, a flapping link, failures in Poisson streams, shapes of neighbouring
cables and the failures of a machine's trace (``cable_faults.py``). ``grammar.py`` says how faults are written. Faults
may overlap, on one link too: a link is broken as long as any of its faults is in force. Last stands when faults and
route changes of a plan really happened: seconds since the run's start, on its one clock.
"""

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from testbed.errors import InputError
from testbed.model.json_values import located
from testbed.model.machine.load import overload_message
from testbed.model.verdict import Check
from topologies import Json, JsonObject, LinkId, Network, label_of
from topologies import impairments as kinds

FaultKind = Literal["down", "blackhole", "loss", "impaired"]
Direction = Literal["both", "forward"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One failure of one link, in force from ``start_s`` until ``stop_s``, seconds after the run's start.

    ``stop_s`` is infinite for a permanent fault. ``kind`` down: the carrier goes; blackhole: packets vanish, the
    carrier stays; loss: each packet is lost with probability ``loss_fraction``; impaired: what ``impairments`` says
    happens to packets (``topologies.impairments``), and ``loss_fraction`` is their mean loss. ``direction`` both: the
    whole cable fails, whichever of its two links is named; forward: only the named one. Raises InputError for anything
    else.
    """

    link: LinkId
    kind: FaultKind = "down"
    start_s: float = 0.0
    stop_s: float = math.inf
    direction: Direction = "both"
    loss_fraction: float = 1.0
    impairments: str = ""

    def __post_init__(self) -> None:
        where = f"fault on {label_of(self.link)}"
        if (self.kind == "impaired") != bool(self.impairments):
            raise InputError(
                f"{where}: kind {self.kind} {'without' if self.kind == 'impaired' else 'with'} impairments"
            )
        if self.kind == "impaired":
            with located(where):
                known = kinds.parse_impairments(
                    self.impairments, None
                )  # those of stored runs too: no file is read
            object.__setattr__(self, "impairments", kinds.impairment_text(known))
            object.__setattr__(self, "loss_fraction", kinds.mean_loss(known))
        else:
            check_manner(where, self.kind, self.direction, self.loss_fraction)
        if self.direction not in ("both", "forward"):
            raise InputError(f"{where}: direction {self.direction!r} is neither both nor forward")
        if not 0 <= self.start_s < self.stop_s:
            raise InputError(
                f"{where}: start {self.start_s} s and stop {self.stop_s} s; start must be 0 or more and before stop"
            )

    @property
    def impaired_by(self) -> kinds.Impairments:
        """The impairments as values; none unless the kind is impaired."""
        return kinds.known_impairments(self.impairments)

    @property
    def description(self) -> str:
        """How it fails, as a person would write it."""
        return kinds.to_text(self.impaired_by) if self.kind == "impaired" else self.kind

    @property
    def partial(self) -> bool:
        """Whether some packets pass: it loses at random, in bursts, or only holds packets up."""
        return self.kind in ("loss", "impaired") and self.loss_fraction < 1

    @property
    def permanent(self) -> bool:
        """Whether it is never repaired."""
        return self.stop_s == math.inf

    @property
    def ends_s(self) -> float | None:
        """``stop_s`` for JSON: None where it is never repaired."""
        return None if self.permanent else self.stop_s

    @property
    def ends(self) -> tuple[str, str]:
        """The two nodes that the failing link joins, as the fault names them."""
        return self.link[0], self.link[1]


def check_manner(where: str, kind: str, direction: str, loss_fraction: float) -> None:
    """Raise InputError, which begins with ``where``, unless a link can fail in this manner."""
    if kind not in ("down", "blackhole", "loss"):
        raise InputError(f"{where}: kind {kind!r} is none of down, blackhole, loss")
    if direction not in ("both", "forward"):
        raise InputError(f"{where}: direction {direction!r} is neither both nor forward")
    if not 0 < loss_fraction <= 1:
        raise InputError(f"{where}: loss_fraction {loss_fraction} is outside (0, 1]")


def describe(fault: Fault) -> str:
    """A fault in force, for whoever watches.

    >>> describe(Fault(link=("s1", "s2", 0), kind="loss", loss_fraction=0.2))
    's1->s2 loss 20 %'
    """
    return f"{label_of(fault.link)} {fault.description}" + (
        f" {100 * fault.loss_fraction:g} %" if fault.kind == "loss" else ""
    )


def fault_rows(faults: Iterable[Fault]) -> list[JsonObject]:
    """Faults in a run's document."""
    return [
        {"link": label_of(f.link), "kind": f.kind, "start_s": f.start_s, "stop_s": f.ends_s}
        for f in faults
    ]


def fault_lines(rows: Iterable[Json]) -> Iterator[str]:
    """Those of a document for people."""
    for row in rows:
        until = "s on" if row["stop_s"] is None else f"to {row['stop_s']:.2f} s"
        yield f"  {row['link']} {row['kind']} from {row['start_s']:.2f} {until}"


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


def poisson_faults(
    links: Iterable[LinkId], faults: PoissonFaults, *, until_s: float, seed: int
) -> tuple[Fault, ...]:
    """The faults of these cables (either direction names one), all ended by ``until_s``, by start.

    Each cable draws from a stream of chance of its own, so that its faults do not depend on which other cables there
    are. Raises InputError where there would be more than ``faults.most``.

    >>> spec = PoissonFaults(rate_per_s=0.5, lasts_s=1.0)
    >>> some = poisson_faults([("a", "b", 0)], spec, until_s=60.0, seed=1)
    >>> all(0.8 <= f.start_s < f.stop_s <= 60.0 for f in some), len(some) > 10
    (True, True)
    """
    found: list[Fault] = []
    manner: JsonObject = {
        name: getattr(faults, name) for name in ("kind", "direction", "loss_fraction")
    }
    for link in cables_of(links):
        chance = random.Random(f"{seed}/{link[0]}/{link[1]}/{link[2]}")
        at = faults.start_s
        while (at := at + chance.expovariate(faults.rate_per_s)) < until_s:
            lasts = (
                faults.lasts_s
                if faults.lengths == "fixed"
                else chance.expovariate(1 / faults.lasts_s)
            )
            start, stop = round(at, 4), round(min(until_s, at + max(lasts, 1e-3)), 4)
            if stop > start:
                found.append(Fault(link=link, start_s=start, stop_s=stop, **manner))
            if len(found) > faults.most:
                raise InputError(
                    f"random faults: more than {faults.most} in {until_s:g} s; lower rate_per_s, or raise most"
                )
    return tuple(sorted(found, key=lambda f: (f.start_s, f.link)))


def flapping_faults(
    link: LinkId,
    *,
    period_s: float,
    down_s: float,
    start_s: float,
    stop_s: float,
    kind: FaultKind = "down",
) -> tuple[Fault, ...]:
    """A link that fails for ``down_s`` at the beginning of every whole period between ``start_s`` and ``stop_s``.

    Raises InputError unless 0 < down < period and there are 1 to 10000 periods.

    >>> [(f.start_s, f.stop_s) for f in flapping_faults(("a", "b", 0), period_s=1, down_s=0.3, start_s=2, stop_s=4)]
    [(2.0, 2.3), (3.0, 3.3)]
    """
    if not 0 < down_s < period_s:
        raise InputError(
            f"flapping link: down {down_s:g} s of every {period_s:g} s; give 0 < down < period"
        )
    count = math.floor((stop_s - start_s) / period_s + 1e-9)
    if not 1 <= count <= 10_000:
        raise InputError(
            f"flapping link: {count} periods between {start_s:g} and {stop_s:g} s; give 1 to 10000"
        )
    begins = (start_s + k * period_s for k in range(count))
    return tuple(
        Fault(link=link, kind=kind, start_s=round(at, 4), stop_s=round(at + down_s, 4))
        for at in map(float, begins)
    )


def node_faults(network: Network, node: str, *, start_s: float, stop_s: float) -> tuple[Fault, ...]:
    """A node that is down: all of its cables fail at once. Raises InputError for a node that is not there or has no
    cables."""
    if not isinstance(node, str) or node not in network.node_index:
        raise InputError(f"fault on node {node!r}: {network.name!r} has no such node")
    touching = [link.id for link in network.links if node in (link.source, link.target)]
    if not touching:
        raise InputError(f"fault on node {node!r}: it has no links that could fail")
    return tuple(
        Fault(link=link, kind="down", start_s=start_s, stop_s=stop_s)
        for link in cables_of(touching)
    )


def cables_of(links: Iterable[LinkId]) -> tuple[LinkId, ...]:
    """One direction of every cable among the links, the one whose ends are in order, sorted."""
    return tuple(sorted({min((a, b, key), (b, a, key)) for a, b, key in links}))


def overlapping(faults: Sequence[Fault]) -> bool:
    """Whether any two faults are in force at one time."""
    ordered = sorted(faults, key=lambda f: f.start_s)
    latest_s = itertools.accumulate((fault.stop_s for fault in ordered), max)
    return any(
        fault.start_s < until_s for fault, until_s in zip(ordered[1:], latest_s, strict=False)
    )


@dataclass(frozen=True, kw_only=True)
class FaultTimes:
    """When a fault of the plan was really in force (the moment the link's state had changed, both ways)."""

    fault: Fault
    start_s: float
    stop_s: float
    port_status_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class ChangeTimes:
    """When a route change of the plan really happened. ``began_s``: the first link was touched; ``links_s``: all links
    that vanish had gone; between ``switch_start_s`` and ``switch_stop_s`` new packets passed from the old split to the
    new one; ``done_s``: nothing of the old one was left. ``recomputed_s``: time to route and split again, of the
    change's time."""

    began_s: float
    links_s: float
    switch_start_s: float
    switch_stop_s: float
    done_s: float
    recomputed_s: float = 0.0
    rules: int = 0


def names_of_faults(planned: Sequence[Fault], arrived: Sequence[FaultTimes]) -> list[str]:
    """Which of the planned faults each that came is, as checks say what they are about: "fault:3" for ``planned[3]``.

    Of planned faults that are equal, each is named once, in order.
    """
    left, names = list(enumerate(planned)), []
    for times in arrived:
        entry = next(entry for entry in left if entry[1] == times.fault)
        left.remove(entry)
        names.append(f"fault:{entry[0]}")
    return names


@dataclass(frozen=True, kw_only=True)
class KilledProcess:
    """The process of a node (a receiver, the listener of an I/O node) is killed ``at_s`` seconds after the start."""

    node: str
    at_s: float


def injection_times(
    faults: Sequence[Fault], killed: Sequence[KilledProcess] = ()
) -> tuple[tuple[str, float], ...]:
    """(what breaks, when it begins in seconds) of every fault and every killed process."""
    return (*((label_of(f.link), f.start_s) for f in faults), *((k.node, k.at_s) for k in killed))


MAX_FAULT_LATE_S, LEAST_IN_FORCE, MAX_EARLY_S = 0.5, 0.75, 0.05
"""By which a fault may begin off its time or end after it, in a run that counts; how much of it it has to last; by how
much sooner a switch may tell of it."""


def fault_not_in_force(
    planned: Iterable[Fault], times: Iterable[FaultTimes], until_s: float
) -> str | None:
    """Why a run says nothing: a fault that was to begin before the run's end never came, or hardly when it was planned:
    who carries faults out waited for the kernel."""
    known = {one.fault: one for one in times}
    for fault in (fault for fault in planned if fault.start_s < until_s):
        name, one = f"the fault {label_of(fault.link)} {fault.kind}", known.get(fault)
        if one is None:
            return f"{name} never came"
        lasted_s, planned_s = one.stop_s - one.start_s, min(fault.stop_s, until_s) - fault.start_s
        off_s = max(abs(one.start_s - fault.start_s), one.stop_s - fault.stop_s)
        if lasted_s < LEAST_IN_FORCE * planned_s or off_s > MAX_FAULT_LATE_S:
            name += f" was in force for {lasted_s:.2f} of {planned_s:.2f} s, from {one.start_s:.2f} s on"
            return overload_message(name, hint="leave the machine to this run")
        if (
            one.port_status_s is not None
            and not one.start_s - MAX_EARLY_S <= one.port_status_s <= one.stop_s
        ):
            return f"{name} came at {one.start_s:.2f} s, and a switch told of it at {one.port_status_s:.2f} s"
    return None


def injection_check(
    moments: Sequence[tuple[str, float]], over_s: float, run: str = "the run"
) -> tuple[Check, ...]:
    """One check where faults were requested, none where not: that the run went on until the last of them had begun.

    ``moments``: what breaks, and when it begins, in seconds after the start; ``over_s``: when the run was over. A run
    that was over sooner cannot tell: it has not failed, and not passed either.
    """
    if not moments:
        return ()
    what, begins_s = max(moments, key=lambda moment: moment[1])
    arrived = over_s > begins_s
    return (
        Check(
            name=f"every fault came while {run} went on, s",
            key="faults-came",
            predicted=begins_s,
            measured=over_s,
            passed=arrived,
            relation="at-least",
            unsure=not arrived,
            detail=""
            if arrived
            else f"it was over after {over_s:.2f} s, before {what} at {begins_s:g} s: make it longer",
        ),
    )
