"""What an hour of rare random failures costs in packets, against D x P x ROR (Gabrielyan 2007, eq. 21 and 22).

D is how long one link is broken during the whole communication, P what is sent at rest. The sender knows neither route
nor failure: it diagnoses what failed, answers with the exact N, and falls again. What it sends before that answer and
after a failure's end is the transient, which the formula does not speak of: it is counted next to it. Where the
formula ends is asked of states of the cables alone, drawn for thousands of failures, with N up to what the code
reaches.
"""

import math
from dataclasses import replace

import numpy as np

from experiments.stream.failures.failing_streams import cost_figures, failing_plan
from experiments.stream.networks import NETWORKS, Ends, points_over
from testbed.model.code_description import describe_code
from testbed.model.studies import (
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    grouped,
    sum_of,
    verdict_of,
)
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.drawing.charts import draw_lines, ticks
from testbed.stream.measurements import BoolArray, FloatArray
from testbed.stream.prediction.expected_redundancy import StateCosts
from testbed.stream.simulated import SimulatedStreamFabric

SHARE = 0.02
"""Of the prediction that a measured cost may be off: that of ROR on packets."""
PACKETS = 0.25
"""Of a block, that the mean cost of one cable's failures may be off."""
LAW = 0.05
"""That D x P x ROR may be off, and the exponents of what it is proportional to."""
DOWN = (0.001, 0.005, 0.02, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Links that are broken at once on average."""
CLAIMED_DOWN, BASE_DOWN = 0.02, 0.005
SWEPT = {
    "rate": ("rate_pps",),
    "duration of the communication": ("failures",),
    "failure rate": ("down", "failures"),
    "failure time": ("down", "lasts_s"),
}
"""What the cost is proportional to, and the fields of a point that grow with it."""
BEYOND = {
    "rates": "cables that fail at rates of their own: the sum over cables weighted by rate",
    "groups": "pairs of cables that fail together: the sum over pairs",
}
"""What the documents leave out, and what stands in D x P x ROR's place."""
RATES_SPREAD = 1.5
"""Of the logarithms of rates (normal)."""
REACHED = 255 / 20 - 1
"""Overhead of the longest block of the code."""
CABLES = "Cables fail, both directions at once, not directed links."
"""How the studies deviate."""


def points(quick: bool, seed: int) -> Points:
    """Rates and durations of failures, one stream each: an hour in virtual time, two rates on the first network, the
    higher one on the others (quick: two quarters of an hour on the first)."""
    durations, lasts = ((2.0, 8.0), 900.0) if quick else ((2.0, 5.0, 10.0, 30.0), 3600.0)
    found = []
    for one in NETWORKS[: 1 if quick else None]:
        rates = (90,) if quick else (6, 24) if one is NETWORKS[0] else (24,)
        own = points_over([one], failures_an_hour=rates, lasts_s=durations, duration_s=lasts)
        found += [point | {"seed": seed + 100 * k} for k, point in enumerate(own)]
    return found + law_points(quick, seed)


def law_points(quick: bool, seed: int) -> Points:
    """States of the cables at each mean number of links down, on every network; on the first one each of ``SWEPT``
    doubled twice, and one layer after another."""
    base: Row = {
        "failures": 20_000 if quick else 100_000,
        "down": BASE_DOWN,
        "lasts_s": 10.0,
        "rate_pps": 100.0,
        "layers": 0,
        "seed": seed,
    }
    found: list[tuple[Ends, Row]] = [
        (one, {"law": "down", "down": down})
        for one in NETWORKS[: 1 if quick else None]
        for down in DOWN
    ]
    for law, fields in SWEPT.items():
        for factor in (1, 2, 4):
            found.append(
                (
                    NETWORKS[0],
                    {"law": law, "factor": factor} | {name: base[name] * factor for name in fields},
                )
            )
    found += [(NETWORKS[0], {"law": "ROR", "layers": layers}) for layers in (1, 2, 3)]
    found += [(one, {"law": law}) for one in NETWORKS[: 1 if quick else None] for law in BEYOND]
    return [{**point, **base, **own} for one, own in found for point in points_over([one])]


def measure(point: Row) -> Results:
    """One stream in virtual time, or the states of its cables alone."""
    if "law" in point:
        return cost_of_states(point)
    plan, _ = failing_plan(point)
    costs, found = StateCosts(plan), cost_figures(plan, SimulatedStreamFabric().run(plan))
    return {**found, "worst_block": float(np.nanmax(costs.block_sizes(costs.singles())))}


def cost_of_states(point: Row) -> Results:
    """``cost``: packets beyond rest of a sender that knows every state at once; ``predicted``: D x P x ROR, with what
    chance leaves open of it (a compound Poisson process). ``beyond``: share of the time in which no N helps,
    ``capped``: none up to the cap of a usual stream."""
    plan, _ = failing_plan({**point, "failures_an_hour": 1.0, "duration_s": 10.0})
    usual, plan = (
        StateCosts(plan),
        replace(plan, stream=replace(plan.stream, most_overhead=REACHED)),
    )
    costs = StateCosts(plan)
    units, often = failing_units(point, len(costs.cables))
    lasts_s, broken = drawn_states(point, units, often)
    extra, single, own = (
        costs.block_sizes(which) - costs.base for which in (broken, costs.singles(), units)
    )
    packets_per_s, each = point["rate_pps"] / plan.stream.source_packets, point["failures"] * often
    scale = packets_per_s * point["lasts_s"]
    by_ror = (
        point["failures"] * units.sum() / len(units) / len(costs.cables) * float(np.nansum(single))
    )
    return {
        "ror": float(np.nansum(single)) / costs.base,
        "cost": float(np.nansum(lasts_s * extra)) * packets_per_s,
        "predicted": scale * float(np.nansum(each * own)),
        "by_ror": scale * by_ror,
        "spread": scale * math.sqrt(float(np.nansum(each * own**2))),
        "constant": float(lasts_s.sum() * np.nanmax(single)) * packets_per_s,
        "beyond": float(lasts_s[np.isnan(extra)].sum() / lasts_s.sum()),
        "capped": float(lasts_s[np.isnan(usual.block_sizes(broken))].sum() / lasts_s.sum()),
    }


def failing_units(point: Row, cables: int) -> tuple[BoolArray, FloatArray]:
    """What fails at once, shape (units, cables): each cable, or pairs drawn; and which share of the failures is of
    each."""
    chance = np.random.default_rng([point["seed"], 1])
    units = np.eye(cables, dtype=np.bool_)
    if point["law"] == "groups":
        order = chance.permutation(cables)[: cables // 2 * 2]
        units = units[order[::2]] | units[order[1::2]]
    weight = (
        np.exp(RATES_SPREAD * chance.standard_normal(len(units)))
        if point["law"] == "rates"
        else np.ones(len(units))
    )
    return units, weight / weight.sum()


def drawn_states(point: Row, units: BoolArray, often: FloatArray) -> tuple[FloatArray, BoolArray]:
    """How long each state lasts, shape (states,), and which cables are broken in it, shape (states, cables)."""
    chance = np.random.default_rng(point["seed"])
    count = chance.poisson(point["failures"])
    starts = chance.random(count) * point["failures"] * point["lasts_s"] / point["down"]
    unlike = point["law"] == "rates"
    which = np.tile(
        chance.choice(len(units), count, p=often)
        if unlike
        else chance.integers(0, len(units), count),
        2,
    )
    at_s, step = np.concatenate([starts, starts + point["lasts_s"]]), np.repeat([1, -1], count)
    order = np.argsort(at_s)
    change = units[which[order]] * step[order, None].astype(np.int16)
    return np.diff(at_s[order]), np.cumsum(change, axis=0, dtype=np.int16)[:-1] > 0


def judge(rows: Rows) -> Verdict:
    """Cost by duration and by cable; what is sent at rest; no block lost after the answer; where the law holds."""
    law, streams = [row for row in rows if "law" in row], [row for row in rows if "law" not in row]
    checks = [
        *_by_duration(streams),
        _slope(streams),
        _by_cable(streams),
        _at_rest(streams),
        settled_check(streams),
    ]
    return verdict_of(rows, [*checks, *_law(law)])


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
    return requested, requested * sum_of(rows, "settled") / max(
        1.0, sum_of(rows, "settled_predicted")
    )


def _by_duration(rows: Rows) -> list[Check]:
    """Packets that a failure costs, by its duration; the rival's cost is that of another duration."""
    costs = {
        lasts_s: cost_of_a_failure(own) for lasts_s, own in sorted(grouped(rows, "lasts_s").items())
    }
    least, *_, most = (*costs, *costs)
    others = {lasts_s: least if lasts_s != least else most for lasts_s in costs}
    return [
        Claim(f"packets beyond rest that a failure of {lasts_s:g} s costs")
        .equal(predicted, measured, SHARE * predicted)
        .against(
            costs[others[lasts_s]][0],
            f"a cost that does not depend on the duration: that of {others[lasts_s]:g} s",
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
    design = np.array(
        [[row["states"], row["formula"] / row["lasts_s"]] for row in rows], dtype=np.float64
    )
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
        .equal(1.0, (slope, slope_error if len(rows) > 2 else None), SHARE)
        .against(0.0, "a cost that does not depend on the duration")
        .noting(
            f"beside it every failure costs as if it lasted {longer:.2f}{off} s longer: the transient"
        )
    )


def _by_cable(rows: Rows) -> Check:
    """The worst cable; the rival takes all failures to cost alike."""
    cables = [cable | {"network": row["network"]} for row in rows for cable in row["by_cable"]]
    found = grouped(cables, ("network", "name"))
    blocks = {key: sum_of(own, "blocks") for key, own in found.items()}
    mean = {
        what: {
            key: sum(one[what] * one["blocks"] for one in own) / blocks[key]
            for key, own in found.items()
        }
        for what in ("measured", "predicted")
    }
    of_network = grouped(
        [{"key": key} for key in found],
        lambda cable: cable["key"][0],
        lambda c: mean["predicted"][c["key"]],
    )
    alike = {network: sum(costs) / len(costs) for network, costs in of_network.items()}
    off = [abs(mean["measured"][key] - mean["predicted"][key]) for key in found]
    rival = max((abs(alike[key[0]] - mean["predicted"][key]) for key in found), default=0.0)
    return (
        Claim(
            "mean packets a block beyond rest while one cable is broken, off the predicted ones: the worst cable"
        )
        .at_most(PACKETS, max(off, default=math.inf))
        .against(rival, "every failure costs the mean of all, whichever it is")
        .noting(f"{len(found)} cables, {sum(blocks.values())} blocks")
    )


def _law(rows: Rows) -> list[Check]:
    """Equation 21 on each network while few links are down, where it ends, and its five proportionalities."""
    checks = []
    for network, own in grouped([row for row in rows if row["law"] == "down"], "network").items():
        worst = max(
            (r for r in own if r["down"] <= CLAIMED_DOWN),
            key=lambda r: abs(r["cost"] / r["predicted"] - 1),
        )
        checks.append(
            Claim(
                f"packets beyond rest, off D x P x ROR up to {CLAIMED_DOWN:g} links down, {network}"
            )
            .at_most(
                LAW,
                (
                    abs(worst["cost"] / worst["predicted"] - 1),
                    1.96 * worst["spread"] / worst["predicted"],
                ),
            )
            .against(
                worst["constant"] / worst["predicted"] - 1,
                "constant redundancy for the worst failure",
            )
        )
        (one,) = (row for row in own if row["down"] == 1)
        ends = max(
            (row["down"] for row in own if row["cost"] <= (1 + LAW) * row["predicted"]), default=0
        )
        checks.append(
            Claim(
                f"packets beyond rest per packet of D x P x ROR, one link down on average, {network}"
            )
            .at_least(
                1 + LAW, (one["cost"] / one["predicted"], 1.96 * one["spread"] / one["predicted"])
            )
            .against(1.0, "the law holds however many are down")
            .noting(
                f"within {LAW:.0%} up to {ends:g} links down; beyond reach {one['beyond']:.1%} of the time with N up "
                f"to 255, {one['capped']:.1%} with the sender's usual cap"
            )
        )
    for law, words in BEYOND.items():
        for network, own in grouped([row for row in rows if row["law"] == law], "network").items():
            (one,) = own
            checks.append(
                Claim(f"packets beyond rest, {words}, {network}")
                .equal(
                    1.0,
                    (one["cost"] / one["predicted"], 1.96 * one["spread"] / one["predicted"]),
                    LAW,
                )
                .against(
                    one["by_ror"] / one["predicted"],
                    "D x P x ROR, every cable as often as the mean",
                )
            )
    for law in (*SWEPT, "ROR") if rows else ():
        # more links fail on routes of another ROR: there the cost is that of a packet at rest and a second of failure
        pooled = {law, "down"} if law == "ROR" else {law}
        own = [
            row
            for row in rows
            if row["law"] in pooled and (law != "ROR" or row["down"] == BASE_DOWN)
        ]
        at = np.log([row["ror" if law == "ROR" else "factor"] for row in own])
        cost = [row["cost"] * (row["ror"] / row["predicted"] if law == "ROR" else 1) for row in own]
        weight = (at - at.mean()) / ((at - at.mean()) ** 2).sum()
        error = 1.96 * math.hypot(
            *(w * row["spread"] / row["predicted"] for w, row in zip(weight, own, strict=True))
        )
        checks.append(
            Claim(f"exponent with which packets beyond rest grow with the {law}")
            .equal(1.0, (float(weight @ np.log(cost)), error), LAW)
            .against(0.0, "a cost that does not depend on it")
        )
    return checks


def _at_rest(rows: Rows) -> Check:
    calm = [one for row in rows for one in row["by_down"] if one["name"] == "0"]
    blocks = sum_of(calm, "blocks")
    mean = (
        sum(one["measured"] * one["blocks"] for one in calm) / max(1, blocks) if calm else math.inf
    )
    return (
        Claim("mean packets a block beyond N at rest, while nothing is broken")
        .at_most(0.05, mean)
        .against(
            min(r["worst_block"] - r["block_packets"] for r in rows),
            "constant redundancy for the worst failure",
        )
        .noting(f"{blocks} blocks, from the moment at which the sender has fallen back")
    )


def figures(rows: Rows) -> Figures:
    """Packets a failure by its duration, and over D x P x ROR by the links that are down."""
    costs: dict[tuple[str, float], tuple[float, float]] = {}
    streams = [row for row in rows if "law" not in row]
    for (network, lasts_s), own in sorted(grouped(streams, ("network", "lasts_s")).items()):
        formula, steady = cost_of_a_failure(own)
        total = sum_of(own, "total") / max(1, sum_of(own, "failures"))
        found = {
            "eq. 22": formula,
            "measured, without the transient": steady,
            "measured, all packets": total,
        }
        costs |= {(f"{network}: {words}", lasts_s): (value, 0.0) for words, value in found.items()}
    down = {
        (r["network"], r["down"]): (r["cost"] / r["predicted"], 0.0)
        for r in rows
        if r.get("law") == "down"
    }
    title, x, y = "Cost by duration", "duration of a failure, s", "packets beyond rest a failure"
    by_duration = draw_lines(title, costs, x=x, y=y)
    ticks(by_duration.axes[0], (row["lasts_s"] for row in streams))
    by_duration.axes[0].set_yscale("log")
    title, x, y = (
        "Where the law ends",
        "links down on average",
        "packets beyond rest over D x P x ROR",
    )
    law = draw_lines(title, down, x=x, y=y, claim=(1.0, "D x P x ROR"))
    law.axes[0].set_xscale("log")
    return {"failure_cost": by_duration, "law": law}


STUDY = Study.of_module(
    __name__,
    title="What an hour of rare failures costs in packets",
    ror_code=describe_code(labels="stratified", m=20, tolerance=0.05, der=1e-5),
    answers="Gabrielyan 2007, eq. 21 and 22: D x P x ROR is what the sender really adds; rivals: a cost that does not "
    "depend on the duration, the same cost for every link, constant redundancy",
    deviations=(
        CABLES,
        "N is the exact worst window of stratified labels, not equation 25's; light links cost what labels ask for.",
    ),
)
