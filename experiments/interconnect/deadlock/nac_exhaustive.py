"""Can NAC deadlock at all? Every order of events on networks of three to six routers, with cables that fail (Zarza
2011, 4.2.4).

Beside NAC the same networks without it, which must deadlock, and NAC with one of its parts taken out; which old
knowledge it takes; heads that ask again after each failure and repair; and drawn runs of the timed simulator
(``flapping.py``).
"""

from collections.abc import Callable

from experiments.interconnect.deadlock.flapping import measure_batch
from testbed.interconnect.model_checking.exploration import explore
from testbed.interconnect.model_checking.small_networks import SmallNetwork, one_way_ring, small_network, two_rings
from testbed.interconnect.model_checking.transition_system import LAGGING, NacTransitionSystem, Rules
from testbed.model.studies import Figures, Points, Results, Row, Rows, Study, reader, sum_of, where
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.drawing.charts import chart

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
    "ring of 4, a cable fails beside": lambda: small_network("ring:4", [(2, 0), (3, 1)], [(0, 1)], 1),
    "torus of 2 x 2, a cable fails": lambda: small_network("torus:2x2", [(0, 3), (3, 0)], [(0, 1)], 1),
    "torus of 2 x 3, two cables fail": lambda: small_network("torus:2x3", [(0, 1), (2, 1)], [(0, 1), (1, 2)], 2),
    f"{ROUTER_5} fail": lambda: small_network("torus:2x3", [(2, 4), (4, 2)], [(3, 5), (4, 5)], 2),
    f"{ROUTER_0} fail": lambda: small_network("torus:2x3", [(3, 2), (4, 0)], [(0, 1), (0, 3)], 2),
    "mesh of 2 x 3, two cables fail": lambda: small_network("mesh:2x3", [(1, 2), (5, 0)], [(0, 1), (4, 5)], 2),
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
    "an avoidance buffer in use blocks its input": ({"own_request": False}, ("ring of 3", 2, 0, False)),
    "no repeating while the avoidance buffer is in use": ({"repeat_when_full": False}, ("ring of 3", 2, 0, False)),
    "heads do not ask anew after a repair": ({"recall": False}, ("ring of 4, a cable fails", 1, 1, False)),
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
        {"part": "timed", "network": network, "seed": seed + k, "runs": 20 if quick else BATCH_RUNS, **cure}
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
        return measure_batch(point["network"], point["seed"], point["runs"], ask_anew=point.get("ask_anew", False))
    rules = Rules(**{name: point[name] for name in ("input_slots", "output_slots", "late")}, **point["off"])
    network = NETWORKS[point["network"]]()
    found = explore(NacTransitionSystem(network, rules), most_states=point.get("most_states", MOST_STATES))
    return {
        **{name: getattr(found, name) for name in ("states", "steps", "symmetries", "deepest")},
        "whole": found.complete,
        "stuck": found.stuck,
        "trace": [list(step) for step in found.trace],
    }


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
            _never_drain("conditions judged in the present state", [row for row in nac if not row["late"]], bare),
            _never_drain("knowledge may be old", [row for row in nac if row["late"]], bare),
            Claim("of these networks, those that deadlock without NAC")
            .equal(len(bare), len(dead))
            .against(0.0, "none can deadlock, and NAC is not needed"),
            *(
                Claim(f"NAC spoilt: {row['mutant']}: states that can never drain")
                .at_least(1.0, row["stuck"])
                .against(0.0, "the exploration does not see it")
                .noting(f"{row['network']}; {len(row['trace'])} steps to the first, {row['states']} states")
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
        .noting(f"{len(nac)} explorations" + (f"; all of them on: {', '.join(stuck)}" if stuck else ""))
    )


def _priority(lag: Rows) -> Check:
    """Old knowledge of any age does not deadlock while an avoidance buffer goes before the inputs of its router, as
    arbiters let it."""
    stuck = {row["mutant"]: row["stuck"] for row in lag}
    return (
        Claim("knowledge of any age, but avoidance buffers go first: states under NAC that can never drain")
        .equal(0.0, stuck[NO_PRIORITY])
        .against(stuck[EVERYTHING], "as where an input may go before an avoidance buffer that can have the output")
        .noting(f"{lag[0]['network']}; " + ", ".join(f"{what} lags: {count}" for what, count in stuck.items()))
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
        Claim("heads of inputs ask anew after each failure and repair: states under NAC that can never drain")
        .equal(0.0, sum_of(cured, "stuck"))
        .against(sum_of(before, "stuck"), "as where they go on asking, on the same networks")
        .noting(f"{len(cured)} explorations, {sum_of(cured, 'whole')} of them whole, {sum_of(cured, 'states')} states")
    )


def _timed(batches: Rows) -> list[Check]:
    """No run of the timed simulator with NAC stands still, where some without it do; nor where heads ask again, where
    some with NAC do."""
    plain, again = ([row for row in batches if bool(row.get("ask_anew")) == cured] for cured in (False, True))
    runs, bare, bare_stuck, stuck = (sum_of(plain, name) for name in ("runs", "bare", "bare_stuck", "stuck"))
    cure = "of inputs ask anew when a cable fails or works again"
    return [
        Claim("timed simulator, cables that fail again and again: runs with NAC that stand still")
        .equal(0.0, stuck)
        .cites("free of deadlock (4.2, 4.2.4: semi-formal)")
        .against(runs * bare_stuck / bare, f"as without NAC ({bare_stuck:g} of {bare:g} of these runs)")
        .noting(_format(plain)),
        Claim(f"the same runs, where heads {cure}: runs with NAC that stand still")
        .equal(0.0, sum_of(again, "stuck"))
        .against(stuck, "as where they go on asking")
        .noting(_format(again)),
    ]


def _format(batches: Rows) -> str:
    runs, messages, failures, moved, moving = (
        f"{sum_of(batches, name):.0f}" for name in ("runs", "messages", "failures", "moved", "moving")
    )
    places = ", ".join(sorted({row["network"] for row in batches if row["stuck"]}))
    return f"{runs} runs, {messages} messages, {failures} failures, {moved} packets put aside in {moving} runs" + (
        f"; all that stand still on {places}" if places else ""
    )


def figures(rows: Rows) -> Figures:
    """States explored in each network, with NAC and without."""
    shown = where(rows, part="nac")
    title, size = f"States that NAC can reach, {sum_of(shown, 'stuck')} of them stuck", (8.6, 0.4 * len(shown) + 1.4)
    figure, axes = chart(title, size=size, xlabel="states (of each class of symmetric ones one)", xscale="log")
    old = {True: ", old knowledge", False: ""}
    names = [f"{r['network']}, {r['input_slots']}+{r['output_slots']}{old[r['late']]}" for r in shown]
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
