"""Can NAC deadlock at all? Every order of events on networks of three to six routers, with cables that fail (Zarza
2011, 4.2.4).

Beside NAC the same networks without it, which must deadlock, and NAC with one of its parts taken out; which old
knowledge it takes; heads that ask again after each failure and repair; and drawn runs of the timed simulator on
networks of 2 x 3 whose cables fail and work again every few packet times: what the exploration lets happen in any order
happens there with the delays that routers have.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

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
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.simulation import simulate
from testbed.interconnect.traffic.injection import Injections
from testbed.model.studies import Figures, Points, Results, Row, Rows, Study, reader, sum_of, where
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.drawing.charts import chart
from topologies import load_network

MOST_STATES = 4_000_000
"""Of an exploration: some 0.7 GB."""
LARGE = {"torus of 2 x 3, two cables fail": 60_000_000}
"""Of explorations that need more: 45 million states take 7 GB."""
ROUTER_5, ROUTER_0 = (f"torus of 2 x 3, two cables of router {number}" for number in (5, 0))
ROUTER_1 = "mesh of 2 x 3, two cables of router 1"
NETWORKS: dict[str, Callable[[], SmallNetwork]] = {
    "ring of 3": lambda: one_way_ring(3, (1, 2)),
    "ring of 4": lambda: one_way_ring(4, (1, 2, 3)),
    "ring of 4, 2 hops": lambda: one_way_ring(4, (2,)),
    "ring of 5, 4 hops": lambda: one_way_ring(5, (4,)),
    "ring of 6, 3 hops": lambda: one_way_ring(6, (3,)),
    "two rings that share a link": two_rings,
    "ring of 4, a cable fails": lambda: small_network("ring:4", [(0, 2), (3, 1)], [(0, 1)], 1),
    "ring of 4, a cable fails beside": lambda: small_network(
        "ring:4", [(2, 0), (3, 1)], [(0, 1)], 1
    ),
    "torus of 2 x 2, a cable fails": lambda: small_network(
        "torus:2x2", [(0, 3), (3, 0)], [(0, 1)], 1
    ),
    "torus of 2 x 3, two cables fail": lambda: small_network(
        "torus:2x3", [(0, 1), (2, 1)], [(0, 1), (1, 2)], 2
    ),
    f"{ROUTER_5} fail": lambda: small_network("torus:2x3", [(2, 4), (4, 2)], [(3, 5), (4, 5)], 2),
    f"{ROUTER_0} fail": lambda: small_network("torus:2x3", [(3, 2), (4, 0)], [(0, 1), (0, 3)], 2),
    "mesh of 2 x 3, two cables fail": lambda: small_network(
        "mesh:2x3", [(1, 2), (5, 0)], [(0, 1), (4, 5)], 2
    ),
    f"{ROUTER_1} fail": lambda: small_network("mesh:2x3", [(0, 1), (3, 5)], [(0, 1), (1, 4)], 2),
}
"""One way round, hosts send to those 1, 2, ... hops ahead; with failures, two flows (pairs of routers)."""
Case = tuple[str, int, int, bool]
"""Network, slots of an input, of an output, whether knowledge may be old."""
CASES: tuple[Case, ...] = (
    ("ring of 3", 1, 0, False),
    ("ring of 3", 1, 0, True),
    ("ring of 3", 1, 1, False),
    ("ring of 3", 1, 1, True),
    ("ring of 3", 2, 0, False),
    ("ring of 4", 1, 0, False),
    ("ring of 4", 1, 0, True),
    ("ring of 4, a cable fails", 1, 0, False),
    ("ring of 4, a cable fails", 1, 0, True),
    ("ring of 4, a cable fails beside", 1, 0, True),
    ("torus of 2 x 2, a cable fails", 1, 0, True),
    ("ring of 4, 2 hops", 1, 1, False),
    ("ring of 4, 2 hops", 2, 0, False),
    ("ring of 5, 4 hops", 1, 0, False),
    ("ring of 6, 3 hops", 1, 0, False),
    ("two rings that share a link", 1, 0, False),
    ("ring of 4, a cable fails", 1, 1, False),
    ("torus of 2 x 3, two cables fail", 1, 0, False),
    ("torus of 2 x 3, two cables of router 5 fail", 1, 0, False),
    ("torus of 2 x 3, two cables of router 5 fail", 1, 0, True),
    ("torus of 2 x 3, two cables of router 0 fail", 1, 0, False),
    ("mesh of 2 x 3, two cables fail", 1, 0, False),
    ("mesh of 2 x 3, two cables fail", 1, 0, True),
    ("mesh of 2 x 3, two cables of router 1 fail", 1, 0, False),
)
QUICK = 11
"""So many of them are explored in seconds."""
NEAR_RING: Case = ("ring of 4, a cable fails beside", 1, 0, False)
MUTANTS: dict[str, tuple[dict[str, bool], Case]] = {
    "hosts are not throttled": ({"stop_local": False}, ("ring of 3", 1, 1, True)),
    "an avoidance buffer in use blocks its input": (
        {"own_request": False},
        ("ring of 3", 2, 0, False),
    ),
    "no repeating while the avoidance buffer is in use": (
        {"repeat_when_full": False},
        ("ring of 3", 2, 0, False),
    ),
    "heads do not ask anew after a repair": (
        {"recall": False},
        ("ring of 4, a cable fails", 1, 1, False),
    ),
    "a packet put aside asks for another output": ({"keep_output": False}, NEAR_RING),
}
"""NAC without one part; where it must deadlock."""
MESH: Case = ("mesh of 2 x 3, two cables fail", 1, 0, True)
"""Where NAC deadlocks by old knowledge only."""
EVERYTHING, NO_PRIORITY = "everything", "all but the priority"
LAGS: dict[str, tuple[str, ...]] = {
    **{f"only the {part}": tuple(p for p in LAGGING if p != part) for part in LAGGING},
    NO_PRIORITY: ("priority",),
    EVERYTHING: (),
}
"""What may lag, and what of ``LAGGING`` does not."""
AGAIN: tuple[Case, ...] = (
    MESH,
    ("ring of 4, a cable fails", 1, 0, True),
    ("torus of 2 x 3, two cables of router 5 fail", 1, 0, True),
    ("torus of 2 x 3, two cables of router 0 fail", 1, 0, True),
    ("mesh of 2 x 3, two cables of router 1 fail", 1, 0, False),
    ("torus of 2 x 3, two cables fail", 1, 0, False),
)
"""Explored once more with heads that ask again."""
BATCHES, BATCH_RUNS = 40, 250
"""Runs of the timed simulator on each of two networks."""
EXPLORED: dict[str, tuple[tuple[tuple[int, int], ...], tuple[Cable, ...]]] = {
    "torus:2x3": (((0, 1), (2, 1)), (("s0_0", "s0_1"), ("s0_1", "s0_2"))),
    "mesh:2x3": (((1, 2), (5, 0)), (("s0_0", "s0_1"), ("s1_1", "s1_2"))),
}
"""Flows (hosts, one a router) and failing cables of the two explorations that found states that can never drain."""
BARE = 5
"""Every so manieth run is made without NAC, too."""
Flows = Sequence[tuple[int, int]]


def points(quick: bool, seed: int) -> Points:
    """NAC on every network, the same without NAC, the mutants, old knowledge by its kinds, the cure; nothing of these
    is random."""
    cases = CASES[:QUICK] if quick else CASES
    bare = dict.fromkeys((name, a, o) for name, a, o, _ in cases)
    found = [_point("nac", case, {}) for case in cases]
    found += [_point("none", (*case, False), {"nac": False}) for case in bare]
    found += [_point("mutant", case, off, what) for what, (off, case) in MUTANTS.items()]
    found += [_point("lag", MESH, {"prompt": prompt}, what) for what, prompt in LAGS.items()]
    found += [_point("anew", case, {"ask_anew": True}) for case in (AGAIN[:3] if quick else AGAIN)]
    return found + [
        {
            "part": "timed",
            "network": network,
            "seed": seed + k,
            "runs": 20 if quick else BATCH_RUNS,
            **cure,
        }
        for cure in ({}, {"ask_anew": True})
        for network in ("torus:2x3", "mesh:2x3")
        for k in range(1 if quick else BATCHES)
    ]


def _point(part: str, case: Case, off: Row, what: str = "") -> Results:
    name, input_slots, output_slots, late = case
    return {
        "part": part, "network": name, "input_slots": input_slots, "output_slots": output_slots, "late": late,
        "off": dict(off), "mutant": what,
    } | ({"most_states": LARGE[name]} if name in LARGE and part == "nac" else {})  # fmt: skip


def measure(point: Row) -> Results:
    """Explore one of them, or make a batch of timed runs."""
    if point["part"] == "timed":
        return measure_batch(
            point["network"], point["seed"], point["runs"], ask_anew=point.get("ask_anew", False)
        )
    rules = Rules(
        **{name: point[name] for name in ("input_slots", "output_slots", "late")}, **point["off"]
    )
    network = NETWORKS[point["network"]]()
    found = explore(
        NacTransitionSystem(network, rules), most_states=point.get("most_states", MOST_STATES)
    )
    return {
        **{name: getattr(found, name) for name in ("states", "steps", "symmetries", "deepest")},
        "whole": found.complete,
        "stuck": found.stuck,
        "trace": [list(step) for step in found.trace],
    }


def measure_batch(network: str, seed: int, runs: int, *, ask_anew: bool) -> dict[str, int]:
    """So many runs; each draws its packets, buffers, hop, load, flows and how fast its cables fail and work again.

    Counted are runs, messages, failures, packets that NAC put aside, runs in which it did, those in which messages
    stayed under way permanently (``stuck``), and the same of runs without NAC (``bare``, ``bare_stuck``; not with
    ``ask_anew``, ``NacOptions.ask_anew``).
    """
    counted = Counter(
        dict.fromkeys(("messages", "failures", "moved", "moving", "stuck", "bare", "bare_stuck"), 0)
    )
    for number in range(runs):
        rng = np.random.default_rng([seed, number])
        parameters = drawn_parameters(rng)
        parameters = replace(parameters, nac=replace(parameters.nac, ask_anew=ask_anew))
        sent, faults = drawn_load(rng, network, parameters)
        run = simulate(model_of(network, parameters), sent, parameters, faults)
        moved = run.nac_counters["moved"] + run.nac_counters["recovery_moved"]
        counted.update(messages=run.sent, failures=len(faults), moved=moved, moving=moved > 0)
        counted["stuck"] += run.received < run.sent
        if number % BARE == 0 and not ask_anew:
            bare = replace(parameters, deadlock="none")
            run = simulate(model_of(network, bare), sent, bare, faults)
            counted.update(bare=1, bare_stuck=run.received < run.sent)
    return {"runs": runs, **{name: int(value) for name, value in counted.items()}}


def drawn_parameters(rng: np.random.Generator) -> SimulationParameters:
    """Packets of 256 to 2048 bytes, one or two slots, both models of a hop, sources that divert and sources that never
    do."""
    size = int(rng.choice([256, 512, 2048]))
    return SimulationParameters(
        model=str(rng.choice(["thesis", "booksim"])),
        routing="ft-drb",
        deadlock="nac",
        packet_bytes=size,
        buffer_bytes=size * int(rng.choice([1, 1, 2])),
        drain_s=0.02,
        watchdog_s=0.005,
        nac=NacOptions(strict_slot=bool(rng.integers(2))),
        ft_drb=FtDrbOptions(notifications=int(rng.choice([5, 250]))),
        seed=int(rng.integers(1, 1 << 30)),
    )


def drawn_load(
    rng: np.random.Generator, network: str, parameters: SimulationParameters
) -> tuple[Injections, list[Fault]]:
    """Some 1,200 messages, by the explored flows or between all hosts, and one to four cables that flap until they are
    sent."""
    flows, cables = EXPLORED[network]
    packet_s = parameters.serialization_ticks(parameters.packet_bytes) / 1e11
    if rng.integers(2):
        chosen: Flows = flows
    else:
        chosen = [(a, b) for a in range(6) for b in range(6) if a != b]
        every = switch_cables(load_network(network))
        cables = tuple(
            every[i] for i in rng.choice(len(every), size=int(rng.integers(1, 5)), replace=False)
        )
    load = float(rng.choice([0.7, 1.5, 3.0])) * min(1.0, 6 / len(chosen))
    sent = _poisson(rng, chosen, 1200 // len(chosen), packet_s / load)
    end_s = float(sent.time_ps[-1]) / 1e12
    return sent, [fault for cable in cables for fault in _flaps(rng, cable, packet_s, end_s)]


def _poisson(rng: np.random.Generator, flows: Flows, each: int, between_s: float) -> Injections:
    times = np.concatenate([np.cumsum(rng.exponential(between_s, size=each)) for _ in flows])
    order = np.argsort(times, kind="stable")
    ends: NDArray[np.int32] = np.repeat(np.array(flows, dtype=np.int32), each, axis=0)[order]
    return Injections(
        time_ps=(times[order] * 1e12).astype(np.int64),
        source=np.ascontiguousarray(ends[:, 0]),
        destination=np.ascontiguousarray(ends[:, 1]),
    )


def _flaps(rng: np.random.Generator, cable: Cable, packet_s: float, end_s: float) -> list[Fault]:
    """The cable works, and is dead, some half to ten packet times on average, in turn."""
    works_s, dead_s = (packet_s * float(v) for v in rng.choice([0.5, 1.0, 2.0, 4.0, 10.0], size=2))
    found, at_s = [], float(rng.uniform(0.0, 4.0 * packet_s))
    while at_s < end_s:
        stop_s = at_s + dead_s * float(rng.uniform(0.3, 1.7))
        found.append(cable_fault(cable, start_s=at_s, stop_s=stop_s))
        at_s = stop_s + works_s * float(rng.uniform(0.3, 1.7))
    return found


def judge(rows: Rows) -> Verdict:
    """NAC: all explored, none stuck; without it every network deadlocks; every mutant is found."""
    nac, bare = where(rows, part="nac"), where(rows, part="none")
    dead = [row for row in bare if row["stuck"]]
    return Verdict.of(
        (
            Claim("explorations of NAC that left no state out")
            .equal(len(nac), sum_of(nac, "whole"))
            .against(0.0, "none came to an end")
            .noting(f"{sum_of(nac, 'states')} states, {sum_of(nac, 'steps')} steps"),
            _never_drain(
                "conditions judged in the present state",
                [row for row in nac if not row["late"]],
                bare,
            ),
            _never_drain("knowledge may be old", [row for row in nac if row["late"]], bare),
            Claim("of these networks, those that deadlock without NAC")
            .equal(len(bare), len(dead))
            .against(0.0, "none can deadlock, and NAC is not needed"),
            *(
                Claim(f"NAC spoilt: {row['mutant']}: states that can never drain")
                .at_least(1.0, row["stuck"])
                .against(0.0, "the exploration does not see it")
                .noting(
                    f"{row['network']}; {len(row['trace'])} steps to the first, {row['states']} states"
                )
                for row in where(rows, part="mutant")
            ),
            _priority(where(rows, part="lag")),
            _again(rows),
            *_timed(where(rows, part="timed")),
        )
    )


def _never_drain(how: str, nac: Rows, bare: Rows) -> Check:
    """None is stuck with NAC, by one of the two models of what routers know; some are without."""
    place = reader(("network", "input_slots", "output_slots"))
    places, stuck = set(map(place, nac)), sorted({row["network"] for row in nac if row["stuck"]})
    rival = sum(row["stuck"] for row in bare if place(row) in places)
    return (
        Claim(f"states under NAC that can never drain, {how}")
        .equal(0.0, sum_of(nac, "stuck"))
        .cites("free of deadlock (4.2, 4.2.4: semi-formal)")
        .against(rival, "as without NAC on the same networks")
        .noting(
            f"{len(nac)} explorations" + (f"; all of them on: {', '.join(stuck)}" if stuck else "")
        )
    )


def _priority(lag: Rows) -> Check:
    """Old knowledge of any age does not deadlock while an avoidance buffer goes before the inputs of its router, as
    arbiters let it."""
    stuck = {row["mutant"]: row["stuck"] for row in lag}
    return (
        Claim(
            "knowledge of any age, but avoidance buffers go first: states under NAC that can never drain"
        )
        .equal(0.0, stuck[NO_PRIORITY])
        .against(
            stuck[EVERYTHING],
            "as where an input may go before an avoidance buffer that can have the output",
        )
        .noting(
            f"{lag[0]['network']}; "
            + ", ".join(f"{what} lags: {count}" for what, count in stuck.items())
        )
    )


def _again(rows: Rows) -> Check:
    """Heads ask again whenever a cable fails or works again, and slots kept for what they requested are free: none is
    stuck."""
    cured = where(rows, part="anew")
    places = {(row["network"], row["late"]) for row in cured}
    before = [row for row in where(rows, part="nac") if (row["network"], row["late"]) in places]
    if not any(row["stuck"] for row in before):
        before = where(rows, part="lag", mutant=EVERYTHING)
    return (
        Claim(
            "heads of inputs ask anew after each failure and repair: states under NAC that can never drain"
        )
        .equal(0.0, sum_of(cured, "stuck"))
        .against(sum_of(before, "stuck"), "as where they go on asking, on the same networks")
        .noting(
            f"{len(cured)} explorations, {sum_of(cured, 'whole')} of them whole, {sum_of(cured, 'states')} states"
        )
    )


def _timed(batches: Rows) -> list[Check]:
    """No run of the timed simulator with NAC stands still, where some without it do; nor where heads ask again, where
    some with NAC do."""
    plain, again = (
        [row for row in batches if bool(row.get("ask_anew")) == cured] for cured in (False, True)
    )
    runs, bare, bare_stuck, stuck = (
        sum_of(plain, name) for name in ("runs", "bare", "bare_stuck", "stuck")
    )
    cure = "of inputs ask anew when a cable fails or works again"
    return [
        Claim("timed simulator, cables that fail again and again: runs with NAC that stand still")
        .equal(0.0, stuck)
        .cites("free of deadlock (4.2, 4.2.4: semi-formal)")
        .against(
            runs * bare_stuck / bare, f"as without NAC ({bare_stuck:g} of {bare:g} of these runs)"
        )
        .noting(_format(plain)),
        Claim(f"the same runs, where heads {cure}: runs with NAC that stand still")
        .equal(0.0, sum_of(again, "stuck"))
        .against(stuck, "as where they go on asking")
        .noting(_format(again)),
    ]


def _format(batches: Rows) -> str:
    runs, messages, failures, moved, moving = (
        f"{sum_of(batches, name):.0f}"
        for name in ("runs", "messages", "failures", "moved", "moving")
    )
    places = ", ".join(sorted({row["network"] for row in batches if row["stuck"]}))
    return (
        f"{runs} runs, {messages} messages, {failures} failures, {moved} packets put aside in {moving} runs"
        + (f"; all that stand still on {places}" if places else "")
    )


def figures(rows: Rows) -> Figures:
    """States explored in each network, with NAC and without."""
    shown = where(rows, part="nac")
    title, size = (
        f"States that NAC can reach, {sum_of(shown, 'stuck')} of them stuck",
        (8.6, 0.4 * len(shown) + 1.4),
    )
    figure, axes = chart(
        title, size=size, xlabel="states (of each class of symmetric ones one)", xscale="log"
    )
    old = {True: ", old knowledge", False: ""}
    names = [
        f"{r['network']}, {r['input_slots']}+{r['output_slots']}{old[r['late']]}" for r in shown
    ]
    axes.barh(names, [r["states"] for r in shown], height=0.6)
    axes.invert_yaxis()
    return {"states": figure}


STUDY = Study.of_module(
    __name__,
    name="interconnect_nac_exhaustive",
    title="NAC in every order of events on networks of three to six routers",
    deviations=(
        "Time is left out: any packet, control packet, host or cable may be next. Where knowledge may be old, credits, "
        "identification and the throttle lag by any time, so that more can happen than in a router.",
        "Hosts send whenever they may; local input buffers and a packet's arrival bit by bit are left out.",
        "After a failure all routers know a table of what is left at once, in the place of FT-DRB's escape paths; at "
        "most one cable is down at once on rings of four (two would cut them), two on tori and meshes of 2 x 3.",
        "The timed runs have FT-DRB's escape paths instead, and cannot follow the explored steps to the letter.",
    ),
    answers="Zarza 2011, section 4.2.4: freedom from deadlock, which the document argues for and does not prove",
)
