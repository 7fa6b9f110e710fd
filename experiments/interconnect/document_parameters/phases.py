"""How long must a run be, and which phase of FT-DRB does it measure (Zarza 2011, sections 3.2 and 3.4)?

Phase 1: routers give messages that meet a dead link an escape path. Phase 2: a source that has had five notifications
of a link diverts its messages. Runs of a tenth of a length, of that length and of twice as long show where the figure
stands still; as what is not diverted yet falls with one over the length, runs of four and eight times that tell where
it would stand in the end.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence

from experiments.interconnect.figures import PERFORMANCE
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import at_least, of_failures, safety_checks
from experiments.interconnect.study_points import POISSON_512, TEN_PERCENT, drb_points, seeds_of
from testbed.model.studies.samples import grouped, mean_of, spread
from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.drawing.charts import draw_lines

LENGTHS_S = {"torus:8x8": 2.0, "fat-tree:4,3": 2.0, "torus:16x16": 1.5, "torus:32x32": 0.8}
"""The length of a run that is meant to be long enough."""
FAILED = TEN_PERCENT | {"torus:32x32": 205}
"""A tenth of the cables."""
MACHINE, MACHINE_ON = "pnnl-mpp2", "torus:32x32"
"""The failures of a machine's years, all permanent (generated, with its statistics), and the network that they fall on
besides."""
SHARES, LONGER = (0.1, 1.0, 2.0), (4.0, 8.0)
"""Of that length: the runs compared, and those from which the figure is extrapolated."""
FAR_S = {"fat-tree:4,3": (100.0, 200.0, 400.0, 800.0), "torus:32x32": (12.8,)}
"""Where the figure still moves then: runs of such lengths, each twice the one before."""


Lines = Mapping[float, Sequence[float]]
"""Length of a run (s) -> performance of each."""


def points(quick: bool, seed: int) -> Points:
    """Every network at three lengths of a run and more, with a tenth of its links failing half-way and without, one
    also with a machine's failures."""
    seeds = list(seeds_of(seed, quick))[: 2 if quick else 6]
    found = []
    for network in list(LENGTHS_S)[: 3 if quick else None]:
        for seconds, (n, kind) in itertools.product(_lengths(network, quick), _failures(network)):
            failing: Results = {"faults": n, "fault_kind": kind, "seconds": seconds}
            found += drb_points(network, "uniform", seeds, quick=quick, **failing)
    return found


def _failures(network: str) -> list[tuple[int, str]]:
    """How many and of which kind; a machine's are as many as its trace has."""
    of_machine = [(1, f"trace-permanent:{MACHINE}")] if network == MACHINE_ON else []
    return [(0, "none"), (FAILED[network], "half"), *of_machine]


def _lengths(network: str, quick: bool) -> list[float]:
    """The lengths of its runs, in order (s)."""
    lengths = [share * LENGTHS_S[network] / (10 if quick else 1) for share in SHARES + LONGER]
    return lengths if quick else [*lengths, *FAR_S.get(network, ())]


def judge(rows: Rows) -> Verdict:
    """The figure stands still when the run's length is doubled; sources divert more the longer it is, and routers help
    less."""
    checks, notes, usual = safety_checks(rows), [], len(SHARES + LONGER)
    for network, lines in _by_length(rows, "latency_later_s").items():
        short, length, doubled, *more = at = sorted(lines)
        checks += [
            Claim(f"{network}: performance after the failure moves so much when the time is doubled (points)")
            .at_most(spread(lines[length])[1], _moved(lines, length, doubled))
            .against(_moved(lines, short, length), "as from a tenth of the time")
            .noting(f"{len(lines[length])} runs of each; at most the half width of the interval at {length:g} s"),
            _later_diverts(network, rows),
        ]
        if more:
            four, eight = at[3:usual]
            rival = _moved(lines, length, doubled), f"as when {length:g} s are doubled"
            checks.append(_doubled(network, lines, (four, eight), rival, itertools.pairwise(at[1:usual])))
            checks.append(_extrapolated(network, {seconds: lines[seconds] for seconds in at[:usual]}))
        if len(at) > usual:
            rival = _moved(lines, four, eight), f"as from {four:g} s to {eight:g} s"
            steps = [(a, b) for a, b in itertools.pairwise(at[usual - 1 :]) if b == 2.0 * a]
            checks.append(_doubled(network, lines, (at[-2], at[-1]), rival, steps))
        notes.append(_format(network, rows))
    return Verdict.of(checks, notes)


def _extrapolated(network: str, lines: Mapping[float, Sequence[float]]) -> Check:
    """Where performance would stand in the end, from the two longest runs, against the same from the two before."""
    _, length, doubled, four, eight = (lines[seconds] for seconds in sorted(lines))
    before, after = (
        [2.0 * b - a for a, b in zip(shorter, longer, strict=True)]
        for shorter, longer in ((doubled, four), (four, eight))
    )
    stands, half = spread(after)
    name, first = f"{network}: performance after the failure in the end, extrapolated", spread(length)[0]
    end = f"{stands:.2f} +- {half:.2f} % in the end (2 P(2T) - P(T), {len(after)} runs)"
    return (
        Claim(f"{name}, moves so much when the time is doubled (points)")
        .at_most(half, abs(stands - spread(before)[0]))
        .against(abs(spread(doubled)[0] - first), "as the figure itself does")
        .noting(f"{end}, {stands - first:.2f} points above the figure at {sorted(lines)[1]:g} s")
    )


def _later_diverts(network: str, rows: Rows) -> Check:
    """In the longest run the source diverts a larger part of the messages that a failure concerns than in the
    shortest."""
    parts = {seconds: _parts(found) for seconds, found in _failed_rows(network, rows).items()}
    first, last = min(parts), max(parts)
    grown = [100.0 * (b - a) for a, b in zip(parts[first], parts[last], strict=True)]
    name = f"{network}: messages past a failure that their source diverts, {last:g} s over {first:g} s (points more)"
    return at_least(name, 5.0, grown).against(0.0, "time makes no difference: phase 2 never comes")


def _parts(rows: Rows) -> list[float]:
    """Diverted over diverted and escaped, a run each."""
    return [row["diverted_share"] / max(row["diverted_share"] + row["escaped_share"], 1e-9) for row in rows]


def _case(row: Row) -> str:
    """What the run is of: a network, or one with a machine's failures."""
    network = str(row["network"])
    return f"{network}, failures of {MACHINE}" if row["fault_kind"].endswith(MACHINE) else network


def _failed_rows(network: str, rows: Rows) -> dict[float, list[Row]]:
    failed = [row for row in rows if _case(row) == network and row["faults"]]
    return grouped(failed, "seconds", None)


def _format(network: str, rows: Rows) -> str:
    """Both phases by length of the run, in words."""
    said = []
    performance = _by_length(rows, "latency_s")[network]
    later = _by_length(rows, "latency_later_s")[network]
    for seconds, found in sorted(_failed_rows(network, rows).items()):
        phases = [f"{which}_share{when}" for when in ("", "_last") for which in ("diverted", "escaped")]
        late = [f"latency_{which}_us" for which in ("diverted", "escaped", "other")]
        means = {name: mean_of(found, name) for name in (*phases, *late)}
        said.append(
            f"{seconds:g} s: "
            f"diverted {means['diverted_share']:.3f} ({means['diverted_share_last']:.3f} in the last quarter), "
            f"escaped {means['escaped_share']:.3f} ({means['escaped_share_last']:.3f}), latency "
            f"{means['latency_diverted_us']:.2f}, {means['latency_escaped_us']:.2f}, "
            f"others {means['latency_other_us']:.2f} us, "
            f"performance {spread(performance[seconds])[0]:.2f} % of the run, "
            f"{spread(later[seconds])[0]:.2f} % after the failure"
        )
    return f"{network}, shares of messages made after the failure: " + "; ".join(said)


def _by_length(rows: Rows, field: str) -> dict[str, dict[float, list[float]]]:
    found: dict[str, dict[float, list[float]]] = {}
    for (network, seconds), values in of_failures(rows, lambda row: (_case(row), row["seconds"]), field).items():
        found.setdefault(network, {})[seconds] = values
    return found


def figures(rows: Rows) -> Figures:
    """Performance after the failure, and the part that sources divert, over the length of the run."""
    by_length, x = _by_length(rows, "latency_later_s"), "length of the run (s)"
    later = {(network, seconds): v for network, line in by_length.items() for seconds, v in line.items()}
    parts = {(n, s): _parts(found) for n in by_length for s, found in _failed_rows(n, rows).items()}
    after = "A tenth of the links (or a machine's failures): performance after the failure"
    concerned = "Messages that a failure concerns: the part that their source diverts"
    drawn = {
        "length": draw_lines(after, later, x=x, y=PERFORMANCE),
        "phases": draw_lines(concerned, parts, x=x, y="diverted / (diverted + escaped)"),
    }
    for figure in drawn.values():
        figure.axes[0].set_xscale("log")
    return drawn


def _moved(lines: Lines, shorter: float, longer: float) -> float:
    return abs(spread(lines[longer])[0] - spread(lines[shorter])[0])


def _doubled(
    network: str,
    lines: Lines,
    ends: tuple[float, float],
    rival: tuple[float, str],
    steps: Iterable[tuple[float, float]],
) -> Check:
    """Whether the figure stands still from the first length to the second, twice as long; ``steps``: what it moved by
    before."""
    at, longer = ends
    each = ", ".join(f"{a:g} s: {_moved(lines, a, b):.3g} of {spread(lines[a])[1]:.3g}" for a, b in steps)
    return (
        Claim(f"{network}: performance after the failure moves so much when {at:g} s are doubled (points)")
        .at_most(spread(lines[at])[1], _moved(lines, at, longer))
        .against(*rival)
        .noting(f"{len(lines[at])} runs; at most the half width of the interval at {at:g} s; by length {each}")
    )


STUDY = Study.of_module(
    __name__,
    name="interconnect_phases",
    title="How long a run must be: routers' escapes first, sources' diversions later",
    deviations=(
        "Six seeds of each point, not 30; uniform traffic only.",
        "Failures of pnnl-mpp2 are generated, permanent, over the whole run: 'after the failure' is its second half.",
        POISSON_512,
    ),
    answers="Zarza 2011, section 3.4: sources divert after five notifications; the document gives no simulated time",
    measure=measure_run,
)
