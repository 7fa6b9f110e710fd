"""ROR of one route measured on packets, as a row; the networks, label orders and rows' arithmetic that the studies of
ROR share."""

import itertools
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace

from experiments.stream.networks import NETWORKS, Ends
from testbed.errors import InvalidRunError
from testbed.faults.fault import Fault
from testbed.model.studies import Results, Row, Rows, repeated
from testbed.routing.baselines import are_disjoint
from testbed.stream.fabric import open_fabric
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.streams import StreamJudgement
from testbed.stream.plan import StreamPlan
from testbed.stream.planning import WARM_UP_S, EachLink, protectable_links
from testbed.stream.prediction.active_faults import (
    exact_block_size,
    fault_intervals,
    predicted_loss,
)
from testbed.stream.prediction.block_size_policy import MAX_SYMBOLS, block_size_policy
from testbed.stream.run_in_turn import run_and_judge
from testbed.stream.workload import stream_plan
from topologies import load_network

LABELS = ("stratified", "random")
PRECISION = {"simulator": 0.03, "emulation": 0.05}
"""Of each link's loss: blocks are counted, not losses, so that short failures suffice."""
SIZES = (40, 60, 80, 100, 115)
EACH_SIZE = 6
MOST_LINKS = {"simulator": 16, "emulation": 8}
"""Links of a route that fail, spread evenly over the order by load: a run on switches then takes twenty seconds."""
RATE_PPS = {"simulator": 1000.0, "emulation": 500.0}
SYMBOL_BYTES = 16
"""Small, so that no link is filled where a route of few paths calls for ten times the packets. ROR does not depend on
it."""
PLAYBACK_S = {"simulator": 0.3, "emulation": 0.4}
ATTEMPTS = 3
Z95 = 1.96


MOST_16 = (
    "At most 16 links of a route fail, spread evenly over the order by load; "
    "what they are off is scaled up to all links."
)
"""How the studies in virtual time deviate."""


def mobile_networks(seed: int, sizes: Sequence[int] = SIZES, each: int = EACH_SIZE) -> list[Ends]:
    """``each`` mobile networks of every size, from n0 to the last node; sizes take turns, so that a study that is cut
    short has measured some of all. Seeds whose ends no two separate paths join are left out: ROR of every route is
    infinite there."""
    drawn = [list(itertools.islice(_both_directions(nodes, seed), each)) for nodes in sizes]
    return [ends for turn in zip(*drawn, strict=True) for ends in turn]


def _both_directions(nodes: int, seed: int) -> Iterator[Ends]:
    for number in itertools.count(seed):
        name, source, sink = f"manet:nodes={nodes},seed={number}", "n0", f"n{nodes - 1}"
        if are_disjoint(load_network(name), source, sink, 2):
            yield name, source, sink


def measure_route(point: Row, fabric: str = "simulator") -> Results:
    """The row of a route: ``point`` has network, source, sink, labels, seed, either ``layers`` (0: all) or ``method``,
    and ``most_links`` where it is not the fabric's.

    ``links`` of the ``of_links`` that do not carry everything failed in turn; ROR figures are their sums, but for
    ``whole``, which is predicted for all. ``spread``: standard deviation of what a link is off. ``astray``: what links
    are off, summed without sign, and ``astray_rival``: what they would be off if each were answered with the next one's
    block size. ``forced`` links carry everything; while ``forced_open`` of them were down something arrived all the
    same. ``beyond``: links that ask for more packets than a block can have.
    """
    faults = EachLink(precision=PRECISION[fabric], most=point.get("most_links", MOST_LINKS[fabric]))
    settings = {key: point[key] for key in ("labels", "seed", "method") if key in point}
    settings |= {
        "layers": point.get("layers") or None,
        "faults": faults,
        "hold_s": 0.3,
        "symbol_bytes": SYMBOL_BYTES,
    }
    settings |= {"rate_pps": RATE_PPS[fabric], "playback_s": PLAYBACK_S[fabric]}
    plan = stream_plan(point["network"], point["source"], point["sink"], **settings)
    forced = [i for i in plan.forward.loaded if plan.forward.load(i) == 1]
    finite = protectable_links(plan)
    row = (
        _finite_part(_session(plan, fabric).analysis, plan.stream.source_packets)
        if finite
        else dict(_NOTHING)
    )
    cut = _session(_with_failures_of(plan, forced), fabric).analysis.faults if forced else ()
    sizes = _predicted_sizes(plan, finite)
    whole = sum(size / block_size_policy(plan).base - 1 for size in sizes)
    row |= {"whole": whole, "of_links": len(finite), "forced": len(forced)}
    row |= {
        "beyond": sum(size > MAX_SYMBOLS for size in sizes),
        "forced_open": sum(f.measured_loss != 1 for f in cut),
    }
    return {key: round(value, 9) for key, value in row.items()}


def _predicted_sizes(plan: StreamPlan, links: Sequence[int]) -> list[int]:
    """The block size of equation 23 for each of these links, for the labels that its cable carries either way; none
    where nothing helps."""
    base = block_size_policy(plan).base
    size_of = exact_block_size(plan)
    sizes = []
    for fault in _with_failures_of(plan, links).faults:
        if predicted_loss(plan, fault) < 1:
            sizes.append(max(base, size_of(fault_intervals(plan, fault)) or base))
    return sizes


def carried(rows: Rows) -> list[Row]:
    """Rows of the routes that a Reed-Solomon code can carry: no link of theirs asks for more than 255 packets a
    block."""
    return [row for row in rows if not row.get("beyond", 0)]


def beyond_notes(rows: Rows) -> list[str]:
    """Which routes are left out because the code cannot carry them."""
    beyond = [row for row in rows if row.get("beyond", 0)]
    left = [
        f"{row['network']} ({row.get('method', row.get('layers'))}, {row['labels']} labels)"
        for row in beyond
    ]
    why = f"left out, because a link of theirs asks for more than {MAX_SYMBOLS} packets a block: {', '.join(left)}"
    return [why] if left else []


def _with_failures_of(plan: StreamPlan, links: Sequence[int]) -> StreamPlan:
    """The links down for 0.6 s each, one after another."""
    lasts_s, every_s = 0.6, 0.6 + plan.stream.recovery_s
    starts = [WARM_UP_S + k * every_s for k in range(len(links))]
    ids = [plan.network.links[i].id for i in links]
    faults = tuple(
        Fault(link=i, start_s=at, stop_s=at + lasts_s) for i, at in zip(ids, starts, strict=True)
    )
    return replace(
        plan, faults=faults, duration_s=WARM_UP_S + len(links) * every_s + plan.stream.playback_s
    )


def _session(plan: StreamPlan, fabric: str) -> StreamJudgement:
    """On switches a run is repeated where the machine could not keep up, or where counting leaves more open than is
    allowed."""
    if fabric == "simulator":
        return run_and_judge(plan, open_fabric(fabric))
    session = repeated(lambda: run_and_judge(plan, open_fabric(fabric)), _reason, ATTEMPTS - 1)
    if (reason := _reason(session)) is not None:
        raise InvalidRunError(
            f"{plan.network.name}, {plan.method}: {reason}, {ATTEMPTS} times in a row; repeat it"
        )
    return session


def _reason(session: StreamJudgement) -> str | None:
    """Why a run says nothing."""
    ror = session.analysis.ror
    open_to, limit = Z95 * ror.error, ror.tolerance
    left_open = (
        f"counting blocks leaves {open_to:.2f} of ROR open (limit {limit:.2f})"
        if open_to > limit
        else None
    )
    return session.verdict.invalid or left_open


_NOTHING = {
    **dict.fromkeys(
        ("predicted", "measured", "tolerance", "error", "spread", "astray", "astray_rival"), 0.0
    ),
    **dict.fromkeys(
        ("links", "unanswered", "steady_blocks", "undecodable", "heavy", "right", "wrong"), 0
    ),
}


def _finite_part(analysis: Analysis, m: int) -> Results:
    base = analysis.theory.policy.base
    # by name: links of one load fail one after another, and the next one's block size would often be the link's own
    by_name = sorted(analysis.faults, key=lambda fault: fault.link)
    counted = [(f, n) for f in by_name if (n := f.predicted_block_size) is not None]
    reported = [(m * f.sent_per_source, n) for f, n in counted if f.sent_per_source is not None]
    after = [n for _, n in reported[1:] + reported[:1]]
    off = [(sent - n) / base for sent, n in reported]
    heavy = [f for f, _ in counted if f.predicted_loss > 1 / 200]
    named = [fault.diagnosis for fault in heavy if fault.diagnosis is not None]
    return {
        "predicted": analysis.ror.predicted,
        "measured": analysis.ror.measured,
        "tolerance": analysis.ror.tolerance,
        "error": analysis.ror.error,
        "spread": statistics.stdev(off) if len(off) > 1 else 0.0,
        "astray": sum(map(abs, off)),
        "astray_rival": sum(abs(other - n) for (_, n), other in zip(reported, after, strict=True))
        / base,
        "links": len(counted),
        "unanswered": len(counted) - len(reported),
        "steady_blocks": sum(f.steady_blocks for f, n in counted if n > base),
        "undecodable": sum(f.undecodable_blocks for f, _ in counted),
        "heavy": len(heavy),
        "right": sum(one.right for one in named),
        "wrong": sum(one.certain and not one.right for one in named),
    }


@dataclass(frozen=True)
class RouteRor:
    """ROR of whole routes: one's, or the mean over several. ``uncertainty``: half width of the measured one's 95 %
    interval.

    Where a sample of links failed, what they were off is scaled up to all links and added to what is predicted for all.
    The interval has what counting whole blocks leaves open and, of a sample, what the links that did not fail may be
    off.
    """

    predicted: float
    measured: float
    uncertainty: float


def route_ror(row: Row) -> RouteRor:
    """The finite part: over the links that do not carry everything. A route that has none of them costs nothing
    there."""
    failed, of = row["links"], row["of_links"]
    if not failed:
        return RouteRor(0.0, 0.0, 0.0)
    chosen, off = (
        row["spread"] * math.sqrt(failed * (1 - failed / of)),
        row["measured"] - row["predicted"],
    )
    uncertainty = Z95 * of / failed * math.hypot(row["error"], chosen)
    return RouteRor(row["whole"], row["whole"] + of / failed * off, uncertainty)


def mean_ror(rows: Rows) -> RouteRor:
    """The mean over routes, one or more."""
    predicted, measured, uncertainty = zip(*(astuple(route_ror(row)) for row in rows), strict=True)
    return RouteRor(
        sum(predicted) / len(rows), sum(measured) / len(rows), math.hypot(*uncertainty) / len(rows)
    )


def allowed(labels: str, predicted: float) -> float:
    """What a measured ROR, or a difference of two, may be off: 0.05 or 2 % with stratified labels, 0.1 or 5 % with
    random ones."""
    least, share = (0.05, 0.02) if labels == "stratified" else (0.1, 0.05)
    return max(least, share * abs(predicted))


def route_allowed(row: Row) -> float:
    """That over the links that failed, without what a run's own verdict allows more (where a block would need over 255
    packets)."""
    return allowed(row["labels"], row["predicted"])


def off_in_tolerances(row: Row) -> float:
    """How far what was measured lies off, over the links that failed."""
    return float(abs(row["measured"] - row["predicted"]) / route_allowed(row))


def study_networks(quick: bool, seed: int) -> list[Ends]:
    """Swiss-T1, NSFNET and thirty mobile networks; quick: and one."""
    return list(NETWORKS) if quick else [*NETWORKS[:2], *mobile_networks(seed)]


def measure_on_switches(point: Row) -> Results:
    """One run on switches, repeated where the machine could not keep up."""
    return measure_route(point, "emulation")
