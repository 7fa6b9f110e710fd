"""Explores whether NAC can deadlock on small networks, in every order of events.

The networks have three to six routers, and cables that fail (Zarza 2011, 4.2.4). The same networks
are explored without NAC, which must deadlock, with NAC that lacks one of its parts, with different
kinds of outdated knowledge, and with heads that are routed again after each failure and repair.
Random runs of the timed simulator are added, on networks of 2 x 3 routers whose cables fail and are
repaired every few packet times. Explorations take events in any order. In the timed runs, the
delays of routers and links determine the order.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.interconnect.runs import model_of
from testbed.faults.cable_faults import Cable, cable_fault, switch_cables
from testbed.faults.fault import Fault
from testbed.interconnect.model_checking.exploration import explore
from testbed.interconnect.model_checking.small_networks import (
    SmallNetwork,
    one_way_ring,
    small_network,
    two_rings,
)
from testbed.interconnect.model_checking.transition_system import (
    LAGGING,
    NacTransitionSystem,
    Rules,
)
from testbed.interconnect.options import FtDrbOptions, NacOptions
from testbed.interconnect.parameters import TICKS_PER_S, SimulationParameters
from testbed.interconnect.simulation import simulate
from testbed.interconnect.traffic.injection import Injections
from testbed.model.studies import (
    Check,
    Claim,
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    Verdict,
    sum_of,
    where,
)
from testbed.report.drawing.charts import chart
from topologies import load_network

# Largest number of states of an exploration, which take some 0.7 GB.
MAX_STATES = 4_000_000

# Larger limits, by network, for explorations with NAC. 45 million states take 7 GB.
LARGE = {"torus of 2 x 3, two cables fail": 60_000_000}

# Functions that build the networks, by name. On a ring packets take one direction, and hosts send
# to the hosts 1, 2, ... hops ahead. Networks with failures have two flows, given as pairs of
# routers.
NETWORKS: dict[str, Callable[[], SmallNetwork]] = {
    "ring of 3": partial(one_way_ring, 3, (1, 2)),
    "ring of 4": partial(one_way_ring, 4, (1, 2, 3)),
    "ring of 4, 2 hops": partial(one_way_ring, 4, (2,)),
    "ring of 5, 4 hops": partial(one_way_ring, 5, (4,)),
    "ring of 6, 3 hops": partial(one_way_ring, 6, (3,)),
    "two rings that share a link": two_rings,
    "ring of 4, a cable fails": partial(
        small_network, "ring:4", flows=[(0, 2), (3, 1)], failing=[(0, 1)], most_down=1
    ),
    "ring of 4, a cable fails beside": partial(
        small_network, "ring:4", flows=[(2, 0), (3, 1)], failing=[(0, 1)], most_down=1
    ),
    "torus of 2 x 2, a cable fails": partial(
        small_network, "torus:2x2", flows=[(0, 3), (3, 0)], failing=[(0, 1)], most_down=1
    ),
    "torus of 2 x 3, two cables fail": partial(
        small_network, "torus:2x3", flows=[(0, 1), (2, 1)], failing=[(0, 1), (1, 2)], most_down=2
    ),
    "torus of 2 x 3, two cables of router 5 fail": partial(
        small_network, "torus:2x3", flows=[(2, 4), (4, 2)], failing=[(3, 5), (4, 5)], most_down=2
    ),
    "torus of 2 x 3, two cables of router 0 fail": partial(
        small_network, "torus:2x3", flows=[(3, 2), (4, 0)], failing=[(0, 1), (0, 3)], most_down=2
    ),
    "mesh of 2 x 3, two cables fail": partial(
        small_network, "mesh:2x3", flows=[(1, 2), (5, 0)], failing=[(0, 1), (4, 5)], most_down=2
    ),
    "mesh of 2 x 3, two cables of router 1 fail": partial(
        small_network, "mesh:2x3", flows=[(0, 1), (3, 5)], failing=[(0, 1), (1, 4)], most_down=2
    ),
}


class Case(NamedTuple):
    """A network that is explored, and its buffers.

    Attributes:
        network: Name of the network.
        input_slots: Slots of an input buffer.
        output_slots: Slots of an output buffer; 0: no output buffers.
        late: Whether routers may decide by outdated knowledge.
    """

    network: str
    input_slots: int
    output_slots: int
    late: bool


# All cases that are explored with NAC, and, without outdated knowledge, without NAC.
CASES = (
    Case("ring of 3", 1, 0, late=False),
    Case("ring of 3", 1, 0, late=True),
    Case("ring of 3", 1, 1, late=False),
    Case("ring of 3", 1, 1, late=True),
    Case("ring of 3", 2, 0, late=False),
    Case("ring of 4", 1, 0, late=False),
    Case("ring of 4", 1, 0, late=True),
    Case("ring of 4, a cable fails", 1, 0, late=False),
    Case("ring of 4, a cable fails", 1, 0, late=True),
    Case("ring of 4, a cable fails beside", 1, 0, late=True),
    Case("torus of 2 x 2, a cable fails", 1, 0, late=True),
    Case("ring of 4, 2 hops", 1, 1, late=False),
    Case("ring of 4, 2 hops", 2, 0, late=False),
    Case("ring of 5, 4 hops", 1, 0, late=False),
    Case("ring of 6, 3 hops", 1, 0, late=False),
    Case("two rings that share a link", 1, 0, late=False),
    Case("ring of 4, a cable fails", 1, 1, late=False),
    Case("torus of 2 x 3, two cables fail", 1, 0, late=False),
    Case("torus of 2 x 3, two cables of router 5 fail", 1, 0, late=False),
    Case("torus of 2 x 3, two cables of router 5 fail", 1, 0, late=True),
    Case("torus of 2 x 3, two cables of router 0 fail", 1, 0, late=False),
    Case("mesh of 2 x 3, two cables fail", 1, 0, late=False),
    Case("mesh of 2 x 3, two cables fail", 1, 0, late=True),
    Case("mesh of 2 x 3, two cables of router 1 fail", 1, 0, late=False),
)

# With --quick, this number of cases, the first ones, is explored. It takes seconds.
QUICK = 11

# NAC deadlocks here with outdated knowledge only.
MESH = Case("mesh of 2 x 3, two cables fail", 1, 0, late=True)


class Mutant(NamedTuple):
    """NAC without one of its parts, and a case in which it must deadlock.

    Attributes:
        rules: Fields of ``Rules``.
        case: The case.
    """

    rules: dict[str, bool]
    case: Case


# The part of NAC that is missing -> the mutant.
MUTANTS = {
    "hosts are not throttled": Mutant({"stop_local": False}, Case("ring of 3", 1, 1, late=True)),
    "an avoidance buffer in use blocks its input": Mutant(
        {"own_request": False}, Case("ring of 3", 2, 0, late=False)
    ),
    "no repeating while the avoidance buffer is in use": Mutant(
        {"repeat_when_full": False}, Case("ring of 3", 2, 0, late=False)
    ),
    "heads do not ask anew after a repair": Mutant(
        {"recall": False}, Case("ring of 4, a cable fails", 1, 1, late=False)
    ),
    "a packet put aside asks for another output": Mutant(
        {"keep_output": False}, Case("ring of 4, a cable fails beside", 1, 0, late=False)
    ),
}

# What may be outdated -> the decisions that routers make by current knowledge (``Rules.prompt``).
EVERYTHING = "everything"
NO_PRIORITY = "all but the priority"
LAGS: dict[str, tuple[str, ...]] = {}
for _part in LAGGING:
    LAGS[f"only the {_part}"] = tuple(name for name in LAGGING if name != _part)
LAGS[NO_PRIORITY] = ("priority",)
LAGS[EVERYTHING] = ()

# Cases that are explored once more with heads that are routed again (``Rules.ask_anew``).
AGAIN = (
    MESH,
    Case("ring of 4, a cable fails", 1, 0, late=True),
    Case("torus of 2 x 3, two cables of router 5 fail", 1, 0, late=True),
    Case("torus of 2 x 3, two cables of router 0 fail", 1, 0, late=True),
    Case("mesh of 2 x 3, two cables of router 1 fail", 1, 0, late=False),
    Case("torus of 2 x 3, two cables fail", 1, 0, late=False),
)
QUICK_AGAIN = 3

# Number of batches of timed runs on each of two networks, and number of runs of a batch.
BATCHES = 40
BATCH_RUNS = 250
QUICK_BATCHES = 1
QUICK_BATCH_RUNS = 20
TIMED_NETWORKS = ("torus:2x3", "mesh:2x3")

# Every fifth timed run is repeated without NAC.
BARE = 5

# The source and destination host of each flow. Each router has one host.
Flows = Sequence[tuple[int, int]]


class Explored(NamedTuple):
    """Flows and failing cables for which an exploration found states that can never drain."""

    flows: Flows
    cables: tuple[Cable, ...]


# The same flows and cables, by the network of the timed runs.
EXPLORED = {
    "torus:2x3": Explored(((0, 1), (2, 1)), (("s0_0", "s0_1"), ("s0_1", "s0_2"))),
    "mesh:2x3": Explored(((1, 2), (5, 0)), (("s0_0", "s0_1"), ("s1_1", "s1_2"))),
}


def points(quick: bool, seed: int) -> Points:
    """Return the points. Only those of part "timed" are random.

    Parts "nac" and "none" have all cases with NAC and without it. Part "mutant" has NAC without
    one of its parts, part "lag" the kinds of outdated knowledge, and part "anew" heads that are
    routed again. Part "timed" has batches of timed runs.
    """
    cases = CASES[:QUICK] if quick else CASES
    again = AGAIN[:QUICK_AGAIN] if quick else AGAIN
    result = []
    for case in cases:
        result.append(_point("nac", case, {}))
    # Without NAC routers need no knowledge, so that it cannot be outdated.
    for bare_case in dict.fromkeys(case._replace(late=False) for case in cases):
        result.append(_point("none", bare_case, {"nac": False}))
    for name, mutant in MUTANTS.items():
        result.append(_point("mutant", mutant.case, mutant.rules, name))
    for name, prompt in LAGS.items():
        result.append(_point("lag", MESH, {"prompt": prompt}, name))
    for case in again:
        result.append(_point("anew", case, {"ask_anew": True}))
    return result + _timed_points(seed, quick=quick)


def _point(part: str, case: Case, rules: Row, mutant: str = "") -> Results:
    """Return the point of an exploration.

    Args:
        part: Part of the study.
        case: The case.
        rules: Fields of ``Rules`` that differ from their defaults.
        mutant: Name of the mutant, or of what may be outdated.
    """
    point: Results = {
        "part": part,
        **case._asdict(),
        "off": dict(rules),
        "mutant": mutant,
    }
    if part == "nac" and case.network in LARGE:
        point["most_states"] = LARGE[case.network]
    return point


def _timed_points(seed: int, *, quick: bool) -> Points:
    """Return the points of batches of timed runs, without and with heads that are routed again."""
    batches = QUICK_BATCHES if quick else BATCHES
    runs = QUICK_BATCH_RUNS if quick else BATCH_RUNS
    result: Points = []
    for ask_anew in (False, True):
        for network in TIMED_NETWORKS:
            for batch_seed in range(seed, seed + batches):
                point = {"part": "timed", "network": network, "seed": batch_seed, "runs": runs}
                if ask_anew:
                    point["ask_anew"] = True
                result.append(point)
    return result


def measure(point: Row) -> Results:
    """Explore a network, or make a batch of timed runs."""
    if point["part"] == "timed":
        ask_anew = point.get("ask_anew", False)
        return measure_batch(point["network"], point["seed"], point["runs"], ask_anew=ask_anew)
    rules = Rules(
        input_slots=point["input_slots"],
        output_slots=point["output_slots"],
        late=point["late"],
        **point["off"],
    )
    model = NacTransitionSystem(NETWORKS[point["network"]](), rules)
    result = explore(model, most_states=point.get("most_states", MAX_STATES))
    return {
        "states": result.states,
        "steps": result.steps,
        "symmetries": result.symmetries,
        "deepest": result.deepest,
        "whole": result.complete,
        "stuck": result.stuck,
        "trace": [list(step) for step in result.trace],
    }


def measure_batch(network: str, seed: int, runs: int, *, ask_anew: bool) -> dict[str, int]:
    """Make a batch of timed runs.

    Each run draws its packets, buffers, model of a hop, load, flows, and how fast its cables fail
    and are repaired.

    Args:
        network: Specification of the network.
        seed: Seed of the batch.
        runs: Number of runs.
        ask_anew: ``NacOptions.ask_anew``. With it no run is repeated without NAC.

    Returns:
        The numbers of runs, messages and failures, of packets that NAC moved to avoidance buffers
        (``moved``), of runs with such packets (``moving``), and of runs in which messages never
        arrive (``stuck``). For the runs without NAC, ``bare`` and ``bare_stuck``.
    """
    names = ("messages", "failures", "moved", "moving", "stuck", "bare", "bare_stuck")
    counts = {"runs": runs, **dict.fromkeys(names, 0)}
    for number in range(runs):
        rng = np.random.default_rng([seed, number])
        parameters = drawn_parameters(rng)
        nac = replace(parameters.nac, ask_anew=ask_anew)
        parameters = replace(parameters, nac=nac)
        injections, faults = drawn_load(rng, network, parameters)
        result = simulate(model_of(network, parameters), injections, parameters, faults)
        moved = result.nac_counters["moved"] + result.nac_counters["recovery_moved"]
        counts["messages"] += result.sent
        counts["failures"] += len(faults)
        counts["moved"] += int(moved)
        if moved > 0:
            counts["moving"] += 1
        if result.received < result.sent:
            counts["stuck"] += 1
        if number % BARE == 0 and not ask_anew:
            without_nac = replace(parameters, deadlock="none")
            result = simulate(model_of(network, without_nac), injections, without_nac, faults)
            counts["bare"] += 1
            if result.received < result.sent:
                counts["bare_stuck"] += 1
    return counts


# In the functions below the order of the draws matters: another order gives other runs.


def drawn_parameters(rng: np.random.Generator) -> SimulationParameters:
    """Draw the parameters of a timed run.

    Packets have 256 to 2048 bytes, and buffers one or two slots. Both models of a hop are drawn,
    and sources that divert messages or never do.
    """
    packet_bytes = int(rng.choice([256, 512, 2048]))
    model = str(rng.choice(["thesis", "booksim"]))
    slots = int(rng.choice([1, 1, 2]))
    strict_slot = bool(rng.integers(2))
    notifications = int(rng.choice([5, 250]))
    return SimulationParameters(
        model=model,
        routing="ft-drb",
        deadlock="nac",
        packet_bytes=packet_bytes,
        buffer_bytes=packet_bytes * slots,
        drain_s=0.02,
        watchdog_s=0.005,
        nac=NacOptions(strict_slot=strict_slot),
        ft_drb=FtDrbOptions(notifications=notifications),
        seed=int(rng.integers(1, 1 << 30)),
    )


def drawn_load(
    rng: np.random.Generator, network: str, parameters: SimulationParameters
) -> tuple[Injections, list[Fault]]:
    """Draw the messages and failures of a timed run.

    Some 1,200 messages follow the explored flows or go between all hosts. One to four cables fail
    and are repaired until all messages are generated.
    """
    flows, cables = EXPLORED[network]
    packet_s = parameters.serialization_ticks(parameters.packet_bytes) / TICKS_PER_S
    if not rng.integers(2):
        flows = list(permutations(range(6), 2))
        all_cables = switch_cables(load_network(network))
        count = int(rng.integers(1, 5))
        chosen = rng.choice(len(all_cables), size=count, replace=False)
        cables = tuple(all_cables[index] for index in chosen)
    # With more flows than hosts, the load is that of all messages of a host.
    load = float(rng.choice([0.7, 1.5, 3.0])) * min(1.0, 6 / len(flows))
    injections = _poisson(rng, flows, 1200 // len(flows), packet_s / load)
    end_s = float(injections.time_ps[-1]) / 1e12
    faults = []
    for cable in cables:
        faults += _flaps(rng, cable, packet_s, end_s)
    return injections, faults


def _poisson(
    rng: np.random.Generator, flows: Flows, messages: int, mean_interval_s: float
) -> Injections:
    """Draw this number of messages of each flow, at random times."""
    times_s = []
    for _ in flows:
        intervals_s = rng.exponential(mean_interval_s, size=messages)
        times_s.append(np.cumsum(intervals_s))
    time_s = np.concatenate(times_s)
    order = np.argsort(time_s, kind="stable")
    ends: NDArray[np.int32] = np.repeat(np.array(flows, dtype=np.int32), messages, axis=0)[order]
    return Injections(
        time_ps=(time_s[order] * 1e12).astype(np.int64),
        source=np.ascontiguousarray(ends[:, 0]),
        destination=np.ascontiguousarray(ends[:, 1]),
    )


def _flaps(rng: np.random.Generator, cable: Cable, packet_s: float, end_s: float) -> list[Fault]:
    """Draw the failures of a cable until ``end_s``.

    The mean times for which the cable works and is down are drawn too: half a packet time to ten.
    """
    up_packets, down_packets = rng.choice([0.5, 1.0, 2.0, 4.0, 10.0], size=2)
    up_s = packet_s * float(up_packets)
    down_s = packet_s * float(down_packets)
    faults = []
    start_s = float(rng.uniform(0.0, 4.0 * packet_s))
    while start_s < end_s:
        stop_s = start_s + down_s * float(rng.uniform(0.3, 1.7))
        faults.append(cable_fault(cable, start_s=start_s, stop_s=stop_s))
        start_s = stop_s + up_s * float(rng.uniform(0.3, 1.7))
    return faults


def judge(rows: Rows) -> Verdict:
    """Check that NAC never deadlocks, but the networks without it and all mutants do."""
    with_nac = where(rows, part="nac")
    without_nac = where(rows, part="none")
    checks = [
        _complete_check(with_nac),
        _drain_check(
            "conditions judged in the present state", where(with_nac, late=False), without_nac
        ),
        _drain_check("knowledge may be old", where(with_nac, late=True), without_nac),
        _bare_check(without_nac),
    ]
    for row in where(rows, part="mutant"):
        checks.append(_mutant_check(row))
    checks.append(_priority_check(where(rows, part="lag")))
    checks.append(_again_check(rows))
    timed = where(rows, part="timed")
    not_rerouted = [row for row in timed if not row.get("ask_anew")]
    rerouted = [row for row in timed if row.get("ask_anew")]
    checks += [_timed_check(not_rerouted), _timed_again_check(not_rerouted, rerouted)]
    return Verdict.of(checks)


def _complete_check(nac: Rows) -> Check:
    name = "explorations of NAC that left no state out"
    check = Claim(name).equal(len(nac), sum_of(nac, "whole"))
    check = check.against(0.0, "none came to an end")
    return check.noting(f"{sum_of(nac, 'states')} states, {sum_of(nac, 'steps')} steps")


def _drain_check(knowledge: str, with_nac: Rows, without_nac: Rows) -> Check:
    """Check that no state with NAC is stuck, but some are without it.

    Args:
        knowledge: How current the knowledge of routers is, for the name of the check.
        with_nac: Explorations with NAC.
        without_nac: Explorations without NAC.
    """
    stuck = sorted({row["network"] for row in with_nac if row["stuck"]})
    settings = {_setting_of(row) for row in with_nac}
    rival = sum(row["stuck"] for row in without_nac if _setting_of(row) in settings)
    check = Claim(f"states under NAC that can never drain, {knowledge}").equal(
        0.0, sum_of(with_nac, "stuck")
    )
    check = check.cites("free of deadlock (4.2, 4.2.4: semi-formal)")
    check = check.against(rival, "as without NAC on the same networks")
    detail = f"{len(with_nac)} explorations"
    if stuck:
        detail += f"; all of them on: {', '.join(stuck)}"
    return check.noting(detail)


def _setting_of(row: Row) -> tuple[str, int, int]:
    return row["network"], row["input_slots"], row["output_slots"]


def _bare_check(without_nac: Rows) -> Check:
    deadlocking = sum(bool(row["stuck"]) for row in without_nac)
    name = "of these networks, those that deadlock without NAC"
    check = Claim(name).equal(len(without_nac), deadlocking)
    return check.against(0.0, "none can deadlock, and NAC is not needed")


def _mutant_check(row: Row) -> Check:
    """Check that the exploration finds the deadlock of NAC without one of its parts."""
    name = f"NAC spoilt: {row['mutant']}: states that can never drain"
    check = Claim(name).at_least(1.0, row["stuck"])
    check = check.against(0.0, "the exploration does not see it")
    return check.noting(
        f"{row['network']}; {len(row['trace'])} steps to the first, {row['states']} states"
    )


def _priority_check(lag: Rows) -> Check:
    """Check that outdated knowledge deadlocks only if it is on the priority of avoidance buffers.

    Real arbiters know at once that an avoidance buffer has priority over the inputs of its router.
    """
    stuck = {row["mutant"]: row["stuck"] for row in lag}
    name = (
        "knowledge of any age, but avoidance buffers go first: "
        "states under NAC that can never drain"
    )
    check = Claim(name).equal(0.0, stuck[NO_PRIORITY])
    check = check.against(
        stuck[EVERYTHING],
        "as where an input may go before an avoidance buffer that can have the output",
    )
    parts = [f"{name} lags: {count}" for name, count in stuck.items()]
    return check.noting(f"{lag[0]['network']}; {', '.join(parts)}")


def _again_check(rows: Rows) -> Check:
    """Check that no state is stuck if heads are routed again.

    They are routed again whenever a cable fails or is repaired, and slots that are reserved for
    their requests are freed.
    """
    rerouted = where(rows, part="anew")
    cases = {(row["network"], row["late"]) for row in rerouted}
    not_rerouted = [
        row for row in where(rows, part="nac") if (row["network"], row["late"]) in cases
    ]
    if not any(row["stuck"] for row in not_rerouted):
        # A quick run has none of the cases that are stuck.
        not_rerouted = where(rows, part="lag", mutant=EVERYTHING)
    name = (
        "heads of inputs ask anew after each failure and repair: "
        "states under NAC that can never drain"
    )
    check = Claim(name).equal(0.0, sum_of(rerouted, "stuck"))
    check = check.against(
        sum_of(not_rerouted, "stuck"), "as where they go on asking, on the same networks"
    )
    return check.noting(
        f"{len(rerouted)} explorations, {sum_of(rerouted, 'whole')} of them whole, "
        f"{sum_of(rerouted, 'states')} states"
    )


def _timed_check(batches: Rows) -> Check:
    """Check that no timed run with NAC is stuck, although some are without it."""
    bare = sum_of(batches, "bare")
    bare_stuck = sum_of(batches, "bare_stuck")
    name = "timed simulator, cables that fail again and again: runs with NAC that stand still"
    check = Claim(name).equal(0.0, sum_of(batches, "stuck"))
    check = check.cites("free of deadlock (4.2, 4.2.4: semi-formal)")
    check = check.against(
        sum_of(batches, "runs") * bare_stuck / bare,
        f"as without NAC ({bare_stuck:g} of {bare:g} of these runs)",
    )
    return check.noting(_describe(batches))


def _timed_again_check(not_rerouted: Rows, rerouted: Rows) -> Check:
    """Check that no timed run is stuck if heads are routed again.

    Args:
        not_rerouted: Batches of runs in which heads keep their requests, the rival.
        rerouted: Batches of runs in which heads are routed again.
    """
    name = (
        "the same runs, where heads of inputs ask anew when a cable fails or works again: "
        "runs with NAC that stand still"
    )
    check = Claim(name).equal(0.0, sum_of(rerouted, "stuck"))
    check = check.against(sum_of(not_rerouted, "stuck"), "as where they go on asking")
    return check.noting(_describe(rerouted))


def _describe(batches: Rows) -> str:
    """Return a text with the counts of batches of timed runs."""
    description = (
        f"{sum_of(batches, 'runs'):.0f} runs, {sum_of(batches, 'messages'):.0f} messages, "
        f"{sum_of(batches, 'failures'):.0f} failures, {sum_of(batches, 'moved'):.0f} packets "
        f"put aside in {sum_of(batches, 'moving'):.0f} runs"
    )
    networks = sorted({row["network"] for row in batches if row["stuck"]})
    if networks:
        description += f"; all that stand still on {', '.join(networks)}"
    return description


def figures(rows: Rows) -> Figures:
    """Draw the number of states of each exploration with NAC."""
    shown = where(rows, part="nac")
    names = []
    for row in shown:
        name = f"{row['network']}, {row['input_slots']}+{row['output_slots']}"
        names.append(f"{name}, old knowledge" if row["late"] else name)
    figure, axes = chart(
        f"States that NAC can reach, {sum_of(shown, 'stuck')} of them stuck",
        size=(8.6, 0.4 * len(shown) + 1.4),
        xlabel="states (of each class of symmetric ones one)",
        xscale="log",
    )
    axes.barh(names, [row["states"] for row in shown], height=0.6)
    axes.invert_yaxis()
    return {"states": figure}


STUDY = Study.of_module(
    __name__,
    name="interconnect_nac_exhaustive",
    title="NAC in every order of events on networks of three to six routers",
    deviations=(
        "Time is left out: any packet, control packet, host or cable may be next. If knowledge "
        "may be outdated, credits, identification and the throttle lag by any time. So more can "
        "happen than in a router.",
        "Hosts send whenever they may. Local input buffers and the gradual arrival of a packet "
        "are left out.",
        "After a failure all routers have a table for the remaining network at once, instead of "
        "FT-DRB's escape paths. At most one cable is down at a time on rings of four, which two "
        "would cut, and at most two on tori and meshes of 2 x 3.",
        "The timed runs have FT-DRB's escape paths instead, and cannot follow the explored steps "
        "exactly.",
    ),
    answers="Zarza 2011, section 4.2.4: freedom from deadlock, for which the document argues "
    "without a proof",
)
