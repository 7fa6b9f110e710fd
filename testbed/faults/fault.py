"""Faults: a link of a network fails or is impaired, for some time or permanently.

Every workload plans, injects and judges faults of this one class. Functions expand other failures
to several faults, randomly if a seed is given: a node that is down, a flapping link, Poisson
processes of failures, shapes of neighbouring cables, and the failures in a trace
(``cable_faults.py``). ``grammar.py`` defines how faults are written. Faults may overlap, even on
one link, which is broken while any of its faults is active. The last part of the module describes
when faults and route changes really happened, in seconds since the start of the run.
"""

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter
from typing import Literal

from testbed.errors import InputError
from testbed.model.json_values import prefix_errors
from testbed.model.machine.load import overload_message
from testbed.model.verdict import Check
from topologies import Json, JsonObject, LinkId, Network, label_of
from topologies import impairments as kinds

FaultKind = Literal["down", "blackhole", "loss", "impaired"]
Direction = Literal["both", "forward"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A failure of a link.

    Attributes:
        link: Id of the link.
        kind: "down": the link has no carrier. "blackhole": packets are lost, but the carrier stays.
            "loss": each packet is lost with probability ``loss_fraction``. "impaired": packets
            are affected by ``impairments``.
        start_s: When the fault begins, in seconds since the start of the run.
        stop_s: When the fault ends. Infinite for a permanent fault.
        direction: "both": the complete cable fails, whichever of its two links is named.
            "forward": only the named link fails.
        loss_fraction: Fraction of lost packets. For an impaired link it is the mean loss.
        impairments: Text of the impairments (``topologies.impairments``).

    Raises:
        InputError: A value is not valid, or they do not fit together.
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
            preposition = "without" if self.kind == "impaired" else "with"
            raise InputError(f"{where}: kind {self.kind} {preposition} impairments")
        if self.kind == "impaired":
            with prefix_errors(where):
                # No trace file is read here: stored runs contain the traces themselves.
                impairments = kinds.parse_impairments(self.impairments, None)
            object.__setattr__(self, "impairments", kinds.impairment_text(impairments))
            object.__setattr__(self, "loss_fraction", kinds.mean_loss(impairments))
        else:
            check_manner(where, self.kind, self.direction, self.loss_fraction)
        if self.direction not in ("both", "forward"):
            raise InputError(f"{where}: direction {self.direction!r} is neither both nor forward")
        if not 0 <= self.start_s < self.stop_s:
            raise InputError(
                f"{where}: start {self.start_s} s and stop {self.stop_s} s; "
                "start must be 0 or more and before stop"
            )

    @property
    def impaired_by(self) -> kinds.Impairments:
        """The impairments as values, empty unless the kind is "impaired"."""
        return kinds.known_impairments(self.impairments)

    @property
    def description(self) -> str:
        """Description of the failure for people."""
        if self.kind == "impaired":
            return kinds.to_text(self.impaired_by)
        return self.kind

    @property
    def partial(self) -> bool:
        """True if some packets pass: they are lost randomly, lost in bursts, or only delayed."""
        return self.kind in ("loss", "impaired") and self.loss_fraction < 1

    @property
    def permanent(self) -> bool:
        """True if the fault has no end."""
        return self.stop_s == math.inf

    @property
    def ends_s(self) -> float | None:
        """``stop_s`` for JSON, None for a permanent fault."""
        return None if self.permanent else self.stop_s

    @property
    def ends(self) -> tuple[str, str]:
        """The two nodes of the link, in the order of its id."""
        return self.link[0], self.link[1]


def by_start(fault: Fault) -> tuple[float, LinkId]:
    """Return the key by which faults are sorted: their start, then their link."""
    return fault.start_s, fault.link


def check_manner(where: str, kind: str, direction: str, loss_fraction: float) -> None:
    """Check the way in which a link fails, if it is not impaired.

    Args:
        where: How errors begin.
        kind: Kind of the fault.
        direction: Direction of the fault.
        loss_fraction: Fraction of lost packets.

    Raises:
        InputError: A value is not valid.
    """
    if kind not in ("down", "blackhole", "loss"):
        raise InputError(f"{where}: kind {kind!r} is none of down, blackhole, loss")
    if direction not in ("both", "forward"):
        raise InputError(f"{where}: direction {direction!r} is neither both nor forward")
    if not 0 < loss_fraction <= 1:
        raise InputError(f"{where}: loss_fraction {loss_fraction} is outside (0, 1]")


def describe(fault: Fault) -> str:
    """Return a description of an active fault for people.

    >>> describe(Fault(link=("s1", "s2", 0), kind="loss", loss_fraction=0.2))
    's1->s2 loss 20 %'
    """
    text = f"{label_of(fault.link)} {fault.description}"
    if fault.kind == "loss":
        text += f" {100 * fault.loss_fraction:g} %"
    return text


def fault_rows(faults: Iterable[Fault]) -> list[JsonObject]:
    """Return the faults for the JSON document of a run."""
    rows: list[JsonObject] = []
    for fault in faults:
        rows.append(
            {
                "link": label_of(fault.link),
                "kind": fault.kind,
                "start_s": fault.start_s,
                "stop_s": fault.ends_s,
            }
        )
    return rows


def fault_lines(rows: Iterable[Json]) -> Iterator[str]:
    """Yield the lines for people about the faults of ``fault_rows``."""
    for row in rows:
        until = "s on" if row["stop_s"] is None else f"to {row['stop_s']:.2f} s"
        yield f"  {row['link']} {row['kind']} from {row['start_s']:.2f} {until}"


# Distributions of the duration of faults.
Lengths = Literal["fixed", "exponential"]
# How long after a run its permanent faults end.
_OUTLASTS_S = 1.0
# Shortest duration of a randomly drawn fault.
_MIN_RANDOM_DURATION_S = 1e-3


@dataclass(frozen=True, kw_only=True)
class PoissonFaults:
    """Random faults of every cable, independent of each other.

    Attributes:
        rate_per_s: Mean number of failures of each cable per second.
        lasts_s: Duration of a fault in seconds, or its mean if ``lengths`` is "exponential".
        start_s: No fault begins before this time, in seconds since the start of the run.
        lengths: Distribution of the durations.
        kind: Kind of the faults.
        direction: Direction of the faults.
        loss_fraction: Fraction of lost packets.
        most: Largest accepted number of faults.

    Raises:
        InputError: A value is not valid.
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
        """Fraction of the time in which a cable is broken.

        It is 1 - exp(-rate x duration), as for a queue with infinitely many servers.
        """
        return -math.expm1(-self.rate_per_s * self.lasts_s)


def outlasting(faults: Iterable[Fault], duration_s: float) -> tuple[Fault, ...]:
    """Return the faults with an end for permanent ones, one second after the end of the run.

    Args:
        faults: The faults.
        duration_s: Duration of the run in seconds.

    >>> [f.stop_s for f in outlasting([Fault(link=("a", "b", 0), start_s=1.0)], 5.0)]
    [6.0]
    """
    finite_faults = []
    for fault in faults:
        if fault.permanent:
            finite_faults.append(replace(fault, stop_s=duration_s + _OUTLASTS_S))
        else:
            finite_faults.append(fault)
    return tuple(finite_faults)


def poisson_faults(
    links: Iterable[LinkId], faults: PoissonFaults, *, until_s: float, seed: int
) -> tuple[Fault, ...]:
    """Draw random faults of cables.

    Each cable has its own random generator, so that its faults do not depend on the other cables.

    Args:
        links: The links of the cables, in one direction or both.
        faults: The distribution of the faults.
        until_s: When all faults have ended, in seconds since the start of the run.
        seed: Seed of the random generators.

    Returns:
        The faults by their start.

    Raises:
        InputError: There are more than ``faults.most`` faults.

    >>> spec = PoissonFaults(rate_per_s=0.5, lasts_s=1.0)
    >>> drawn = poisson_faults([("a", "b", 0)], spec, until_s=60.0, seed=1)
    >>> all(0.8 <= f.start_s < f.stop_s <= 60.0 for f in drawn), len(drawn) > 10
    (True, True)
    """
    drawn: list[Fault] = []
    for link in cables_of(links):
        rng = random.Random(f"{seed}/{link[0]}/{link[1]}/{link[2]}")
        at_s = faults.start_s + rng.expovariate(faults.rate_per_s)
        while at_s < until_s:
            duration_s = faults.lasts_s
            if faults.lengths == "exponential":
                duration_s = rng.expovariate(1 / faults.lasts_s)
            start_s = round(at_s, 4)
            stop_s = round(min(until_s, at_s + max(duration_s, _MIN_RANDOM_DURATION_S)), 4)
            if stop_s > start_s:
                fault = Fault(
                    link=link,
                    start_s=start_s,
                    stop_s=stop_s,
                    kind=faults.kind,
                    direction=faults.direction,
                    loss_fraction=faults.loss_fraction,
                )
                drawn.append(fault)
            if len(drawn) > faults.most:
                raise InputError(
                    f"random faults: more than {faults.most} in {until_s:g} s; "
                    "lower rate_per_s, or raise most"
                )
            at_s += rng.expovariate(faults.rate_per_s)
    return tuple(sorted(drawn, key=by_start))


def flapping_faults(
    link: LinkId,
    *,
    period_s: float,
    down_s: float,
    start_s: float,
    stop_s: float,
    kind: FaultKind = "down",
) -> tuple[Fault, ...]:
    """Return the faults of a link that fails at the beginning of every complete period.

    Args:
        link: Id of the link.
        period_s: Length of a period in seconds.
        down_s: Duration of each fault in seconds.
        start_s: When the first period begins, in seconds since the start of the run.
        stop_s: No period ends later.
        kind: Kind of the faults.

    Raises:
        InputError: The faults are not shorter than the periods, or there are not 1 to 10000
            periods.

    >>> link = ("a", "b", 0)
    >>> faults = flapping_faults(link, period_s=1, down_s=0.3, start_s=2, stop_s=4)
    >>> [(fault.start_s, fault.stop_s) for fault in faults]
    [(2.0, 2.3), (3.0, 3.3)]
    """
    if not 0 < down_s < period_s:
        raise InputError(
            f"flapping link: down {down_s:g} s of every {period_s:g} s; give 0 < down < period"
        )
    # The small addition keeps the last period in spite of rounding errors.
    count = math.floor((stop_s - start_s) / period_s + 1e-9)
    if not 1 <= count <= 10_000:
        raise InputError(
            f"flapping link: {count} periods between {start_s:g} and {stop_s:g} s; give 1 to 10000"
        )
    faults = []
    for k in range(count):
        at_s = float(start_s + k * period_s)
        fault = Fault(link=link, kind=kind, start_s=round(at_s, 4), stop_s=round(at_s + down_s, 4))
        faults.append(fault)
    return tuple(faults)


def node_faults(network: Network, node: str, *, start_s: float, stop_s: float) -> tuple[Fault, ...]:
    """Return the faults of a node that is down: all its cables fail at the same time.

    Args:
        network: The network.
        node: Id of the node.
        start_s: When the node fails, in seconds since the start of the run.
        stop_s: When the node is up again. Infinite for a permanent fault.

    Raises:
        InputError: The network has no such node, or the node has no links.
    """
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
    """Return one link of each cable, sorted: the one whose nodes are in alphabetical order."""
    return tuple(sorted({min((a, b, key), (b, a, key)) for a, b, key in links}))


def overlapping(faults: Sequence[Fault]) -> bool:
    """Return whether any two faults are active at the same time."""
    latest_stop_s = -math.inf
    for fault in sorted(faults, key=attrgetter("start_s")):
        if fault.start_s < latest_stop_s:
            return True
        latest_stop_s = max(latest_stop_s, fault.stop_s)
    return False


@dataclass(frozen=True, kw_only=True)
class FaultTimes:
    """The time in which a planned fault was really active.

    Attributes:
        fault: The planned fault.
        start_s: When the state of the link had changed, in seconds since the start of the run.
        stop_s: When the state of the link had changed back.
        port_status_s: When a switch reported that its port had failed, or None.
    """

    fault: Fault
    start_s: float
    stop_s: float
    port_status_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class ChangeTimes:
    """The time of a planned route change. Moments are in seconds since the start of the run.

    Attributes:
        began_s: When the first link was changed.
        links_s: When all links that disappear had been removed.
        switch_start_s: When the first packets took the new routes.
        switch_stop_s: When all new packets took the new routes.
        done_s: When nothing was left of the old routes.
        recomputed_s: Seconds of the change in which the routes were computed.
        rules: Number of flow rules that were changed.
    """

    began_s: float
    links_s: float
    switch_start_s: float
    switch_stop_s: float
    done_s: float
    recomputed_s: float = 0.0
    rules: int = 0


def names_of_faults(planned: Sequence[Fault], arrived: Sequence[FaultTimes]) -> list[str]:
    """Return the names of faults in checks: "fault:3" for ``planned[3]``.

    Equal faults of the plan are named in their order.

    Args:
        planned: The faults of the plan.
        arrived: The faults that happened, each with its times.
    """
    remaining = list(enumerate(planned))
    names = []
    for times in arrived:
        entry = next(entry for entry in remaining if entry[1] == times.fault)
        remaining.remove(entry)
        names.append(f"fault:{entry[0]}")
    return names


@dataclass(frozen=True, kw_only=True)
class KilledProcess:
    """A process of a node that is killed, such as a receiver or the listener of an I/O node.

    Attributes:
        node: Id of the node.
        at_s: When the process is killed, in seconds since the start of the run.
    """

    node: str
    at_s: float


def injection_times(
    faults: Sequence[Fault], killed: Sequence[KilledProcess] = ()
) -> tuple[tuple[str, float], ...]:
    """Return the link or node of each fault and killed process, and when it fails in seconds."""
    fault_times = [(label_of(fault.link), fault.start_s) for fault in faults]
    kill_times = [(process.node, process.at_s) for process in killed]
    return (*fault_times, *kill_times)


# Limits of the times of faults in a valid run.
# A fault begins at most this many seconds before or after its planned time, and ends at most this
# many seconds after it.
MAX_FAULT_LATE_S = 0.5
# A fault is active for at least this fraction of its planned duration.
MIN_SHARE_IN_FORCE = 0.75
# A switch reports a failed port at most this many seconds before the fault, because clocks differ.
MAX_EARLY_S = 0.05


def fault_not_in_force(
    planned: Iterable[Fault], times: Iterable[FaultTimes], until_s: float
) -> str | None:
    """Return why the faults of a run make it invalid, or None if they do not.

    A fault is missing, or was active at another time than planned because the program that injects
    faults had to wait for the kernel. Faults that were to begin after the end of the run are
    ignored.

    Args:
        planned: The planned faults.
        times: The times of the faults that happened.
        until_s: When the run ended, in seconds since its start.
    """
    times_of_fault = {fault_times.fault: fault_times for fault_times in times}
    for fault in planned:
        if fault.start_s >= until_s:
            continue
        name = f"the fault {label_of(fault.link)} {fault.kind}"
        actual = times_of_fault.get(fault)
        if actual is None:
            return f"{name} did not happen"
        active_s = actual.stop_s - actual.start_s
        planned_s = min(fault.stop_s, until_s) - fault.start_s
        deviation_s = max(abs(actual.start_s - fault.start_s), actual.stop_s - fault.stop_s)
        if active_s < MIN_SHARE_IN_FORCE * planned_s or deviation_s > MAX_FAULT_LATE_S:
            name += (
                f" was active for {active_s:.2f} of {planned_s:.2f} s, "
                f"from {actual.start_s:.2f} s on"
            )
            return overload_message(name, hint="leave the machine to this run")
        if actual.port_status_s is None:
            continue
        if not actual.start_s - MAX_EARLY_S <= actual.port_status_s <= actual.stop_s:
            return (
                f"{name} happened at {actual.start_s:.2f} s, "
                f"and a switch reported it at {actual.port_status_s:.2f} s"
            )
    return None


def injection_check(
    moments: Sequence[tuple[str, float]], over_s: float, run: str = "the run"
) -> tuple[Check, ...]:
    """Return a check that the run continued until the last fault had begun.

    A run that ended earlier cannot tell: it has neither failed nor passed.

    Args:
        moments: What fails and when, in seconds since the start of the run (``injection_times``).
        over_s: When the run ended, in seconds since its start.
        run: What the check calls the run.

    Returns:
        One check, or none if no fault was requested.
    """
    if not moments:
        return ()
    last_fault, begins_s = max(moments, key=itemgetter(1))
    passed = over_s > begins_s
    detail = ""
    if not passed:
        detail = (
            f"it was over after {over_s:.2f} s, before {last_fault} at {begins_s:g} s: "
            "make it longer"
        )
    check = Check(
        name=f"every fault came while {run} went on, s",
        key="faults-came",
        predicted=begins_s,
        measured=over_s,
        passed=passed,
        relation="at-least",
        unsure=not passed,
        detail=detail,
    )
    return (check,)
