"""Measures the cost of failures with 256 bytes, a constant rate and a busy gather (Zarza 2011).

These are parameters of Tables 5.5 to 5.16 that the other studies leave out: both payloads,
messages at a constant rate, and gather at the stated 400 packets/s per node. Such a gather offers
the root's only link 84 % of its capacity.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

from experiments.interconnect.figures import PERFORMANCE, file_name_of
from experiments.interconnect.permanent import NO_DIVERSION, diversion_checks
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import (
    delivery_check,
    diverting,
    failure_performances,
    mean,
    not_diverting,
)
from experiments.interconnect.study_points import SYNTHETIC, TEN_PERCENT, drb_points, seeds_of
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
    where,
)
from testbed.report.drawing.charts import draw_bars

NETWORKS = ("torus:8x8", "fat-tree:4,3")
PAYLOADS = (256, 512)
INJECTIONS = ("poisson", "periodic")

GATHER_NETWORK = "torus:32x32"
GATHER_S = 0.5
GATHER_LINKS = (0, 10, 100)

# Seeds of the runs of gather in which sources divert no message.
ALONE_SEEDS = 6


class Setting(NamedTuple):
    """The setting of a run with failures, apart from its seed."""

    network: str
    pattern: str
    payload_bytes: int
    injection: str
    faults: int


# Performance of each run, by setting.
Performances = Mapping[Setting, list[float]]


def points(quick: bool, seed: int) -> Points:
    """Return the points.

    Two networks have each pattern, payload and injection, with no link failed and with a tenth of
    them. A 32x32 torus has gather. The links fail at the start.
    """
    all_seeds = seeds_of(seed, quick)
    patterns = ("uniform", "transpose") if quick else SYNTHETIC
    seeds = all_seeds[:2] if quick else all_seeds[:5]
    result: Points = []
    for network, pattern, payload_bytes, injection in product(
        NETWORKS, patterns, PAYLOADS, INJECTIONS
    ):
        runs = drb_points(
            network,
            pattern,
            seeds,
            quick=quick,
            faults=(0, TEN_PERCENT[network]),
            fault_kind="start",
            bytes=payload_bytes,
        )
        result += _with_injection(runs, injection)
    return result + _gather_points(all_seeds, quick=quick)


def _gather_points(seeds: Sequence[int], *, quick: bool) -> Points:
    """Return the points of gather. With the most failures a few have no diversion."""
    counts = GATHER_LINKS[:2] if quick else GATHER_LINKS
    settings: Results = {
        "quick": quick,
        "fault_kind": "start",
        "seconds": GATHER_S / 25 if quick else GATHER_S,
    }
    runs = drb_points(GATHER_NETWORK, "gather", seeds, faults=counts, **settings)
    settings["options"] = NO_DIVERSION
    runs += drb_points(GATHER_NETWORK, "gather", seeds[:ALONE_SEEDS], faults=counts[-1], **settings)
    return _with_injection(runs, "periodic")


def _with_injection(points: Points, injection: str) -> Points:
    return [{**point, "injection": injection} for point in points]


def judge(rows: Rows) -> Verdict:
    """Check that payload and injection hardly matter, and that gather loses less than 1 %."""
    performances = _performances(diverting(rows))
    means = {}
    for setting, values in performances.items():
        if setting.pattern != "gather":
            means[setting] = mean(values)
    checks = [
        delivery_check(rows),
        _difference_check(means, "payloads", "payload_bytes", PAYLOADS),
        _difference_check(means, "injections", "injection", INJECTIONS),
        *_gather_checks(performances, _performances(not_diverting(rows))),
    ]
    return Verdict.of(checks)


def _difference_check(
    means: Mapping[Setting, float], plural: str, field: str, pair: tuple[object, object]
) -> Check:
    """Check that two values of a setting give nearly the same performance.

    Args:
        means: Mean performance by setting.
        plural: Name of the setting's values in the plural, for the texts of checks.
        field: Field of ``Setting``.
        pair: The two values that are compared.
    """
    first, second = pair
    differences = {}
    for setting, performance in means.items():
        if getattr(setting, field) == first:
            fields = setting._asdict()
            fields[field] = second
            differences[setting] = abs(performance - means[Setting(**fields)])
    worst = max(differences, key=differences.__getitem__)
    name = (
        "performance with a tenth of the links failed: "
        f"the most that the two {plural} are apart (points)"
    )
    check = Claim(name).at_most(1.0, differences[worst])
    check = check.against(
        100.0 - min(means.values()), "as much as the failed links cost where they cost the most"
    )
    return check.noting(f"{first} against {second}: {worst.network} {worst.pattern}")


def _gather_checks(performances: Performances, alone: Performances) -> list[Check]:
    """Check gather at the stated rate with the largest number of failed links.

    Args:
        performances: Performance with diversion.
        alone: Performance without diversion.
    """
    by_faults = _gather_by_faults(performances)
    alone_by_faults = _gather_by_faults(alone)
    max_faults = max(by_faults)
    return diversion_checks(
        f"gather at the stated 400 packets/s a node: performance with {max_faults} failed links",
        99.0,
        by_faults[max_faults],
        alone_by_faults.get(max_faults, ()),
        "less than 1 % lost (5.6.3, Figure 5.31)",
    )


def _gather_by_faults(performances: Performances) -> dict[int, list[float]]:
    """Return the performance of gather by number of failed links."""
    result = {}
    for setting, values in performances.items():
        if setting.pattern == "gather":
            result[setting.faults] = values
    return result


def _performances(rows: Rows) -> Performances:
    """Return the performance of runs with failures, each beside its run without failures."""
    performances = {}
    # In the figures the series of one injection stand side by side.
    for injection in INJECTIONS:
        labelled = failure_performances(where(rows, injection=injection), _setting_of)
        performances.update(labelled)
    return performances


def _setting_of(row: Row) -> Setting:
    return Setting(row["network"], row["pattern"], row["bytes"], row["injection"], row["faults"])


def figures(rows: Rows) -> Figures:
    """Draw performance with a tenth of the links failed, by payload and injection (5.25)."""
    performances = _performances(diverting(rows))
    drawn = {}
    for network in NETWORKS:
        samples = {}
        for setting, values in performances.items():
            if setting.network == network:
                series = f"{setting.payload_bytes} B, {setting.injection}"
                samples[series, setting.pattern] = values
        drawn[f"5.25-{file_name_of(network)}"] = draw_bars(
            f"{network}: a tenth of the links failed, by payload and injection",
            samples,
            y=PERFORMANCE,
            low=90,
            claim=(95.0, "claim: above 95 %"),
        )
    return drawn


STUDY = Study.of_module(
    __name__,
    name="interconnect_payloads",
    title="Failures with 256 and 512 bytes, constant and random rates, and gather at 400 packets/s",
    deviations=(
        "8x8 torus and fat tree 2 s (uniform 8 s; with --quick 0.4 s) and five seeds; gather 0.5 "
        "s (0.02 s) and 30 seeds. Failures begin at the start of the run.",
        "With a constant rate the nodes send out of phase, because in phase they would send a "
        "burst.",
    ),
    answers="Zarza 2011, Tables 5.5 to 5.16: payloads of 256 and 512 bytes, a constant rate, "
    "gather at 400 packets/s",
    measure=measure_run,
)
