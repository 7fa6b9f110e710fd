"""What an hour of rare random failures costs in packets, against D x P x ROR (Gabrielyan 2007, eq. 21 and 22).

D is how long one link is broken during the whole communication, P what is sent at rest. The sender knows neither route
nor failure: it diagnoses what failed, answers with the exact N, and falls again. What it sends before that answer and
after a failure's end is the transient, which the formula does not speak of: it is counted next to it.
"""

import math

import numpy as np

from experiments.stream.failures.failing_streams import simulated_figures
from experiments.stream.networks import NETWORKS, points_over
from testbed.faults.schedules import PoissonFaults
from testbed.model.code_description import describe_code
from testbed.model.studies import Figures, Points, Results, Row, Rows, Study, grouped, sum_of, verdict_of
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.drawing.charts import Axes, panels, ticks
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.expected_redundancy import StateCosts

SHARE = 0.02
"""Of the prediction that a measured cost may be off: that of ROR on packets."""
PACKETS = 0.25
"""Of a block, that the mean cost of one cable's failures may be off."""
DEVIATIONS = 3.0
"""Standard deviations that the number and the places of random failures may be off."""


CABLES = "Cables fail, both directions at once, not directed links."
"""How the studies deviate."""


def points(quick: bool, seed: int) -> Points:
    """Rates and durations of failures, one stream each: an hour in virtual time, two rates on the first network, the
    higher one on the others (quick: two quarters of an hour on the first)."""
    durations, lasts = ((2.0, 8.0), 900.0) if quick else ((2.0, 5.0, 10.0, 30.0), 3600.0)
    found = []
    for one in NETWORKS[: 1 if quick else None]:
        rates = (90,) if quick else (6, 24) if one is NETWORKS[0] else (24,)
        own = points_over([one.ends], failures_an_hour=rates, lasts_s=durations, duration_s=lasts)
        found += [point | {"seed": seed + 100 * k} for k, point in enumerate(own)]
    return found


def measure(point: Row) -> Results:
    """One stream in virtual time."""
    plan, faults, found = simulated_figures(point)
    return {**found, **before_any_failure(plan, faults)}


def before_any_failure(plan: StreamPlan, faults: PoissonFaults) -> Results:
    """Equation 21 before anything has happened: D = rate x duration x time, and what chance leaves open of D x P x ROR.

    The variance is that of a compound Poisson process: each failure of cable l costs its own number of packets.
    ``worst_block``: N for the costliest failure, which a sender of constant redundancy would always take.
    """
    costs = StateCosts(plan)
    sizes = costs.block_sizes(costs.singles())
    extra = np.nan_to_num(sizes - costs.base) * plan.stream.rate_pps / plan.stream.source_packets * faults.lasts_s
    until = plan.duration_s - plan.stream.playback_s - 0.5
    failures = faults.rate_per_s * (until - faults.start_s)
    return {
        "cables": len(extra),
        "ror": float((np.nan_to_num(sizes / costs.base - 1)).sum()),
        "equation_21": float(failures * extra.sum()),
        "equation_21_spread": math.sqrt(float(failures * (extra**2).sum())),
        "worst_block": float(np.nanmax(sizes)),
    }


def judge(rows: Rows) -> Verdict:
    """Cost by duration, by cable and before anything has happened; what is sent at rest; no block lost after the
    answer."""
    checks = [*_by_duration(rows), _slope(rows), _by_cable(rows), *_in_advance(rows), _at_rest(rows)]
    return verdict_of(rows, [*checks, settled_check(rows)])


def settled_check(rows: Rows) -> Check:
    """No block is lost once the sender has answered."""
    undecodable = sum_of(rows, "undecodable_settled")
    return Claim("undecodable blocks after the sender's answer").count(
        0, undecodable, "none: a count that has to be nought"
    )


def cost_of_a_failure(rows: Rows) -> tuple[float, float]:
    """Packets beyond rest that a failure costs without its transient, predicted and measured: what the states call for,
    and that times the share of it that was sent in settled blocks."""
    requested = sum_of(rows, "states") / max(1, sum_of(rows, "failures"))
    return requested, requested * sum_of(rows, "settled") / max(1.0, sum_of(rows, "settled_predicted"))


def _by_duration(rows: Rows) -> list[Check]:
    """Packets that a failure costs, by its duration; the rival's cost is that of another duration."""
    costs = {lasts_s: cost_of_a_failure(own) for lasts_s, own in sorted(grouped(rows, "lasts_s").items())}
    least, *_, most = (*costs, *costs)
    others = {lasts_s: least if lasts_s != least else most for lasts_s in costs}
    return [
        Claim(f"packets beyond rest that a failure of {lasts_s:g} s costs")
        .equal(predicted, measured, SHARE * predicted)
        .against(
            costs[others[lasts_s]][0], f"a cost that does not depend on the duration: that of {others[lasts_s]:g} s"
        )
        .noting("eq. 22, overlapping failures as one state; the transient left out")
        for lasts_s, (predicted, measured) in costs.items()
    ]


def transient_fit(rows: Rows) -> tuple[float, float, float, float]:
    """All packets beyond rest = a x (what the states call for) + b x (what a second of each failure calls for): a, b
    and the half widths of their 95 % intervals. So b is by how many seconds longer than it lasts a failure is paid for:
    the transient.

    Least squares with residuals weighted by the number of failures, as each brings chance of its own.
    """
    weight = np.array([1 / math.sqrt(max(1, row["failures"])) for row in rows])
    design = np.array([[row["states"], row["formula"] / row["lasts_s"]] for row in rows], dtype=np.float64)
    design *= weight[:, None]
    target = np.array([row["total"] for row in rows]) * weight
    (slope, longer), *_ = np.linalg.lstsq(design, target, rcond=None)
    left = target - design @ np.array([slope, longer])
    variance = float(left @ left) / max(1, len(rows) - 2)
    errors = 1.96 * np.sqrt(np.diag(np.linalg.pinv(design.T @ design)) * variance)
    return float(slope), float(longer), float(errors[0]), float(errors[1])


def _slope(rows: Rows) -> Check:
    slope, longer, slope_error, longer_error = transient_fit(rows)
    off = f" ± {longer_error:.2f}" if len(rows) > 2 else ""
    return (
        Claim("all packets beyond rest, per packet that D x P x ROR asks for")
        .equal(1.0, slope, SHARE)
        .plus_minus(slope_error if len(rows) > 2 else None)
        .against(0.0, "a cost that does not depend on the duration")
        .noting(f"beside it every failure costs as if it lasted {longer:.2f}{off} s longer: the transient")
    )


def _by_cable(rows: Rows) -> Check:
    """The worst cable; the rival takes all failures to cost alike."""
    cables = [cable | {"network": row["network"]} for row in rows for cable in row["by_cable"]]
    found = grouped(cables, ("network", "name"))
    blocks = {key: sum_of(own, "blocks") for key, own in found.items()}
    mean = {
        what: {key: sum(one[what] * one["blocks"] for one in own) / blocks[key] for key, own in found.items()}
        for what in ("measured", "predicted")
    }
    of_network = grouped(
        [{"key": key} for key in found], lambda cable: cable["key"][0], lambda c: mean["predicted"][c["key"]]
    )
    alike = {network: sum(costs) / len(costs) for network, costs in of_network.items()}
    off = [abs(mean["measured"][key] - mean["predicted"][key]) for key in found]
    rival = max((abs(alike[key[0]] - mean["predicted"][key]) for key in found), default=0.0)
    return (
        Claim("mean packets a block beyond rest while one cable is broken, off the predicted ones: the worst cable")
        .at_most(PACKETS, max(off, default=math.inf))
        .against(rival, "every failure costs the mean of all, whichever it is")
        .noting(f"{len(found)} cables, {sum(blocks.values())} blocks")
    )


def _in_advance(rows: Rows) -> list[Check]:
    """Equation 21 as it stands, on each network, against the packets of all its streams, the transient included."""
    checks = []
    for network, own in grouped(rows, "network").items():
        predicted = sum_of(own, "equation_21")
        spread = math.sqrt(sum(row["equation_21_spread"] ** 2 for row in own))
        constant = sum((row["worst_block"] - row["block_packets"]) * row["blocks"] for row in own)
        states = sum_of(own, "states")
        checks.append(
            Claim(f"packets beyond rest by D x P x ROR before any failure, {network}")
            .equal(predicted, sum_of(own, "total"), DEVIATIONS * spread)
            .plus_minus(1.96 * spread)
            .against(constant, "constant redundancy for the worst failure")
            .noting(
                f"{sum_of(own, 'failures')} failures; those that came call for {states:.0f}, each as if alone "
                f"for {sum_of(own, 'formula'):.0f}; tolerance: three standard deviations of chance"
            )
        )
    return checks


def _at_rest(rows: Rows) -> Check:
    calm = [one for row in rows for one in row["by_down"] if one["name"] == "0"]
    blocks = sum_of(calm, "blocks")
    mean = sum(one["measured"] * one["blocks"] for one in calm) / max(1, blocks) if calm else math.inf
    return (
        Claim("mean packets a block beyond N at rest, while nothing is broken")
        .at_most(0.05, mean)
        .against(min(r["worst_block"] - r["block_packets"] for r in rows), "constant redundancy for the worst failure")
        .noting(f"{blocks} blocks, from the moment at which the sender has fallen back")
    )


def figures(rows: Rows) -> Figures:
    """Packets a failure by its duration, and by cable."""
    figure, (left, right) = panels(11, 4.8, columns=2)
    for number, (network, own) in enumerate(grouped(rows, "network").items()):
        _draw_by_duration(left, own, f"C{number}", network)
        cables = [one for row in own for one in row["by_cable"]]
        at, drawn = [one["predicted"] for one in cables], [one["measured"] for one in cables]
        right.plot(at, drawn, "o", color=f"C{number}", fillstyle="none", label=network)
    ticks(left, (row["lasts_s"] for row in rows))
    left.plot([], [], "ko", label="measured, without the transient")
    left.plot([], [], "kx", label="measured, all packets")
    left.plot([], [], "k:", label="rival: as the shortest")
    most = max([one["predicted"] for row in rows for one in row["by_cable"]], default=1.0)
    right.plot([0, most], [0, most], "k--", linewidth=1, label="as predicted")
    left.set(xlabel="duration of a failure, s", ylabel="packets beyond rest a failure", title="by duration")
    right.set(xlabel="N for the cable's labels, less N at rest", ylabel="packets sent a block, less N at rest")
    right.set_title("by cable, while it alone is broken")
    for axes in (left, right):
        axes.legend()
    return {"failure_cost": figure}


def _draw_by_duration(axes: Axes, rows: Rows, colour: str, network: str) -> None:
    by_duration = dict(sorted(grouped(rows, "lasts_s").items()))
    lasting = list(by_duration)
    formula, steady = zip(*map(cost_of_a_failure, by_duration.values()), strict=True)
    total = [sum_of(own, "total") / max(1, sum_of(own, "failures")) for own in by_duration.values()]
    axes.loglog(lasting, formula, "-", color=colour, label=f"{network}: eq. 22")
    axes.loglog(lasting, steady, "o", color=colour)
    axes.loglog(lasting, total, "x", color=colour)
    axes.loglog(lasting, [formula[0]] * len(lasting), ":", color=colour)


STUDY = Study.of_module(
    __name__,
    title="What an hour of rare failures costs in packets",
    ror_code=describe_code(labels="stratified", m=20, tolerance=0.05, der=1e-5),
    answers="Gabrielyan 2007, eq. 21 and 22: D x P x ROR is what the sender really adds; rivals: "
    "a cost that does not depend on the "
    "duration, the same cost for every link, constant redundancy",
    deviations=(
        CABLES,
        "N is the exact worst window of stratified labels, not equation 25's; light links cost what labels ask for.",
    ),
)
