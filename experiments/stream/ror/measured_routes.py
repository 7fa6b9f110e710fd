"""Measures ROR of one route by sending packets, and evaluates the rows of such measurements.

The networks and orders of labels that the studies of ROR share are defined here too.
"""

import itertools
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from experiments.stream.networks import NETWORKS, Ends
from testbed.errors import InvalidRunError
from testbed.faults.fault import Fault
from testbed.model.studies import Results, Row, Rows, repeated
from testbed.routing.baselines import are_disjoint
from testbed.stream.fabric import open_fabric
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.fault_figures import FaultResult
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

# Precision of the loss of each link. ROR is computed from blocks, not from losses, so that short
# failures are enough.
PRECISION = {"simulator": 0.03, "emulation": 0.05}

# Number of nodes of the mobile networks, and networks of each size.
SIZES = (40, 60, 80, 100, 115)
EACH_SIZE = 6

# Links of a route that fail, spread evenly over the order by load. A run on switches then takes
# twenty seconds.
MAX_LINKS = {"simulator": 16, "emulation": 8}

RATE_PPS = {"simulator": 1000.0, "emulation": 500.0}

# Small, so that no link is full if a route with few paths needs ten times the packets. ROR does not
# depend on it.
SYMBOL_BYTES = 16

PLAYBACK_S = {"simulator": 0.3, "emulation": 0.4}

# Duration of the failure of a link that carries everything.
CUT_S = 0.6

# Load above which the sender must find the failed cable.
HEAVY_LOAD = 1 / 200

ATTEMPTS = 3
Z95 = 1.96

# A deviation of the studies in the simulator.
SAMPLED_LINKS = (
    "At most 16 links of a route fail, spread evenly over the order by load; "
    "their differences are scaled up to all links."
)


def mobile_networks(seed: int, sizes: Sequence[int] = SIZES, each: int = EACH_SIZE) -> list[Ends]:
    """Return mobile networks of every size, from n0 to the last node.

    Sizes take turns, so that a study that is stopped early has measured some of all sizes. Networks
    without two separate paths are left out, because ROR of every route is infinite there.

    Args:
        seed: Seed of the first network of each size.
        sizes: Numbers of nodes.
        each: Number of networks of each size.
    """
    by_size = [itertools.islice(_networks_of_size(nodes, seed), each) for nodes in sizes]
    networks: list[Ends] = []
    for turn in zip(*by_size, strict=True):
        networks += turn
    return networks


def _networks_of_size(nodes: int, seed: int) -> Iterator[Ends]:
    source = "n0"
    sink = f"n{nodes - 1}"
    for number in itertools.count(seed):
        name = f"manet:nodes={nodes},seed={number}"
        if are_disjoint(load_network(name), source, sink, 2):
            yield name, source, sink


def measure_route(point: Row, fabric: str = "simulator") -> Results:
    """Measure ROR of one route.

    Links that do not carry everything fail in turn, and then the links that do.

    Args:
        point: The network, source, sink, labels and seed; ``layers`` (0: all) or ``method``; and
            ``most_links`` if it is not that of the fabric.
        fabric: "simulator" or "emulation".

    Returns:
        - ``of_links``, ``links``: Number of links that do not carry the complete flow, and of those
          among them that failed.
        - ``predicted``, ``measured``: ROR, summed over the links that failed.
        - ``whole``: Predicted ROR of all links.
        - ``spread``: Standard deviation of the differences between measured and predicted terms.
        - ``astray``, ``astray_rival``: Sum of the absolute differences, and its value if the sender
          answered each failure with the block size of the next one.
        - ``forced``, ``forced_open``: Number of links that carry the complete flow, and of those
          among them in whose failure something arrived.
        - ``beyond``: Number of links that need more packets than a block can have.

        ``_finite_part`` describes the others.
    """
    plan = _route_plan(point, fabric)
    finite_links = protectable_links(plan)
    row = dict(_NOTHING)
    if finite_links:
        row = _finite_part(_session(plan, fabric).analysis, plan.stream.source_packets)
    forced_links = [link for link in plan.forward.loaded if plan.forward.load(link) == 1]
    forced_faults: Sequence[FaultResult] = ()
    if forced_links:
        forced_faults = _session(_with_failures_of(plan, forced_links), fabric).analysis.faults
    base = block_size_policy(plan).base
    sizes = _predicted_sizes(plan, finite_links)
    row["whole"] = sum(size / base - 1 for size in sizes)
    row["of_links"] = len(finite_links)
    row["forced"] = len(forced_links)
    row["beyond"] = sum(size > MAX_SYMBOLS for size in sizes)
    row["forced_open"] = sum(fault.measured_loss != 1 for fault in forced_faults)
    return {key: round(value, 9) for key, value in row.items()}


def _route_plan(point: Row, fabric: str) -> StreamPlan:
    max_links = point.get("most_links", MAX_LINKS[fabric])
    settings = {key: point[key] for key in ("labels", "seed", "method") if key in point}
    return stream_plan(
        point["network"],
        point["source"],
        point["sink"],
        **settings,
        layers=point.get("layers") or None,
        faults=EachLink(precision=PRECISION[fabric], most=max_links),
        hold_s=0.3,
        symbol_bytes=SYMBOL_BYTES,
        rate_pps=RATE_PPS[fabric],
        playback_s=PLAYBACK_S[fabric],
    )


def _predicted_sizes(plan: StreamPlan, links: Sequence[int]) -> list[int]:
    """Return the block size of equation 23 for each link.

    The labels are those that the link's cable carries in both directions. Links for which no block
    size helps are left out.
    """
    base = block_size_policy(plan).base
    size_of = exact_block_size(plan)
    sizes = []
    for fault in _with_failures_of(plan, links).faults:
        if predicted_loss(plan, fault) < 1:
            sizes.append(max(base, size_of(fault_intervals(plan, fault)) or base))
    return sizes


def carried(rows: Rows) -> list[Row]:
    """Return the rows of routes whose blocks a Reed-Solomon code can encode.

    None of their links needs more than 255 packets per block.
    """
    return [row for row in rows if not row.get("beyond", 0)]


def beyond_notes(rows: Rows) -> list[str]:
    """Return a note that names the other routes, which ``carried`` leaves out, if there are any."""
    routes = []
    for row in rows:
        if row.get("beyond", 0):
            routing = row.get("method", row.get("layers"))
            routes.append(f"{row['network']} ({routing}, {row['labels']} labels)")
    if not routes:
        return []
    return [
        f"left out, because a link of theirs asks for more than {MAX_SYMBOLS} packets a block: "
        f"{', '.join(routes)}"
    ]


def _with_failures_of(plan: StreamPlan, links: Sequence[int]) -> StreamPlan:
    """Return the plan with failures of these links, one after another."""
    interval_s = CUT_S + plan.stream.recovery_s
    faults = []
    for number, link in enumerate(links):
        start_s = WARM_UP_S + number * interval_s
        link_id = plan.network.links[link].id
        faults.append(Fault(link=link_id, start_s=start_s, stop_s=start_s + CUT_S))
    duration_s = WARM_UP_S + len(links) * interval_s + plan.stream.playback_s
    return replace(plan, faults=tuple(faults), duration_s=duration_s)


def _session(plan: StreamPlan, fabric: str) -> StreamJudgement:
    """Run and judge a plan.

    A run on switches is repeated if the machine could not keep up, or if the error of counting
    complete blocks is too large.

    Raises:
        InvalidRunError: All attempts were invalid.
    """

    def run_once() -> StreamJudgement:
        return run_and_judge(plan, open_fabric(fabric))

    if fabric == "simulator":
        return run_once()
    session = repeated(run_once, _invalid_reason, ATTEMPTS - 1)
    reason = _invalid_reason(session)
    if reason is not None:
        raise InvalidRunError(
            f"{plan.network.name}, {plan.method}: {reason}, {ATTEMPTS} times in a row; repeat it"
        )
    return session


def _invalid_reason(session: StreamJudgement) -> str | None:
    """Return why a run is invalid, or None."""
    if session.verdict.invalid:
        return session.verdict.invalid
    ror = session.analysis.ror
    half_width = Z95 * ror.error
    if half_width > ror.tolerance:
        return f"counting blocks leaves {half_width:.2f} of ROR open (limit {ror.tolerance:.2f})"
    return None


# The row of a route on which every link carries everything.
_NOTHING = {
    "predicted": 0.0,
    "measured": 0.0,
    "tolerance": 0.0,
    "error": 0.0,
    "spread": 0.0,
    "astray": 0.0,
    "astray_rival": 0.0,
    "links": 0,
    "unanswered": 0,
    "steady_blocks": 0,
    "undecodable": 0,
    "heavy": 0,
    "right": 0,
    "wrong": 0,
}


@dataclass(frozen=True)
class _AnsweredFault:
    """A fault that the sender has answered.

    Attributes:
        sent: Packets per block that were sent.
        size: Packets per block that are predicted.
    """

    sent: float
    size: float


def _finite_part(analysis: Analysis, m: int) -> Results:
    """Return the results of the failures of links that do not carry the complete flow.

    Args:
        analysis: The analysis of the run.
        m: Source packets per block.

    Returns:
        The fields of ``measure_route`` and ``_diagnoses``, and these:

        - ``tolerance``, ``error``: Accepted and statistical error of the measured ROR.
        - ``unanswered``: Number of failures in which the sender did not raise N in time.
        - ``steady_blocks``: Number of blocks after the sender's answers that need a larger N.
        - ``undecodable``: Number of undecodable blocks after the sender's answers.
    """
    base = analysis.theory.policy.base
    # Sorted by name. In their order in time, links of equal load are neighbours, and the next
    # fault's block size would often be the fault's own.
    faults = sorted(analysis.faults, key=lambda fault: fault.link)
    counted: list[FaultResult] = []
    answered: list[_AnsweredFault] = []
    steady_blocks = 0
    for fault in faults:
        size = fault.predicted_block_size
        if size is None:
            continue
        counted.append(fault)
        if size > base:
            steady_blocks += fault.steady_blocks
        if fault.sent_per_source is not None:
            answered.append(_AnsweredFault(m * fault.sent_per_source, size))
    return {
        "predicted": analysis.ror.predicted,
        "measured": analysis.ror.measured,
        "tolerance": analysis.ror.tolerance,
        "error": analysis.ror.error,
        **_differences(answered, base),
        "links": len(counted),
        "unanswered": len(counted) - len(answered),
        "steady_blocks": steady_blocks,
        "undecodable": sum(fault.undecodable_blocks for fault in counted),
        **_diagnoses(counted),
    }


def _differences(answered: Sequence[_AnsweredFault], base: int) -> Results:
    """Return statistics of measured minus predicted packets, over the steady-state block size."""
    differences = [(fault.sent - fault.size) / base for fault in answered]
    rival = 0.0
    for number, fault in enumerate(answered):
        next_fault = answered[(number + 1) % len(answered)]
        rival += abs(next_fault.size - fault.size)
    return {
        "spread": statistics.stdev(differences) if len(differences) > 1 else 0.0,
        "astray": sum(map(abs, differences)),
        "astray_rival": rival / base,
    }


def _diagnoses(faults: Sequence[FaultResult]) -> Results:
    """Count the heavy links that failed, and the sender's right and certain wrong diagnoses."""
    heavy = 0
    right = 0
    wrong = 0
    for fault in faults:
        if fault.predicted_loss <= HEAVY_LOAD:
            continue
        heavy += 1
        diagnosis = fault.diagnosis
        if diagnosis is None:
            continue
        if diagnosis.right:
            right += 1
        elif diagnosis.certain:
            wrong += 1
    return {"heavy": heavy, "right": right, "wrong": wrong}


@dataclass(frozen=True)
class RouteRor:
    """ROR of one route, or the mean over several.

    If only some links failed, their difference from the prediction is scaled up to all links, and
    added to the ROR that is predicted for all.

    Attributes:
        predicted: Predicted ROR.
        measured: Measured ROR.
        uncertainty: Half the width of the 95 % interval of measured ROR. It contains the error of
            counting complete blocks, and that of the links that did not fail.
    """

    predicted: float
    measured: float
    uncertainty: float


def route_ror(row: Row) -> RouteRor:
    """Return ROR over the links that do not carry everything; 0 if all links do."""
    failed = row["links"]
    links = row["of_links"]
    if not failed:
        return RouteRor(0.0, 0.0, 0.0)
    scale = links / failed
    sampling_error = row["spread"] * math.sqrt(failed * (1 - failed / links))
    difference = row["measured"] - row["predicted"]
    return RouteRor(
        predicted=row["whole"],
        measured=row["whole"] + scale * difference,
        uncertainty=Z95 * links / failed * math.hypot(row["error"], sampling_error),
    )


def mean_ror(rows: Rows) -> RouteRor:
    """Return the mean ROR over one or more routes."""
    routes = list(map(route_ror, rows))
    uncertainties = [ror.uncertainty for ror in routes]
    return RouteRor(
        predicted=sum(ror.predicted for ror in routes) / len(routes),
        measured=sum(ror.measured for ror in routes) / len(routes),
        uncertainty=math.hypot(*uncertainties) / len(routes),
    )


def allowed(labels: str, predicted: float) -> float:
    """Return the largest accepted difference of a measured ROR from the predicted one.

    It is 0.05 or 2 % with stratified labels, and 0.1 or 5 % with random ones.

    Args:
        labels: The order of labels.
        predicted: The predicted ROR, or the predicted difference of two.
    """
    if labels == "stratified":
        return max(0.05, 0.02 * abs(predicted))
    return max(0.1, 0.05 * abs(predicted))


def route_allowed(row: Row) -> float:
    """Return ``allowed`` for the links that failed.

    The verdict of the run itself allows more if a block would need over 255 packets.
    """
    return allowed(row["labels"], row["predicted"])


def difference_in_tolerances(row: Row) -> float:
    """Return the difference of measured from predicted ROR of the links that failed.

    The unit is ``route_allowed``.
    """
    return float(abs(row["measured"] - row["predicted"]) / route_allowed(row))


def study_networks(quick: bool, seed: int) -> list[Ends]:
    """Return Swiss-T1, NSFNET and thirty mobile networks (``quick``: one)."""
    if quick:
        return list(NETWORKS)
    return [*NETWORKS[:2], *mobile_networks(seed)]


def measure_on_switches(point: Row) -> Results:
    """Measure ROR of one route on switches."""
    return measure_route(point, "emulation")
