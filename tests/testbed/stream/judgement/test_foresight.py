"""What a run will not be able to tell is said before it begins, and only then: held against runs of every length."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pytest

from testbed.download.judgement import judge_download
from testbed.download.prediction import foreseen as foreseen_of_download
from testbed.download.simulated import simulate_download
from testbed.download.workload import download_plan
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.closing_lines import foreseen
from testbed.stream.judgement.verdict import judge
from testbed.stream.options import StreamOptions
from testbed.stream.plan import StreamPlan
from testbed.stream.probe import build_probe, judge_probe, predicted_failure, probe_plan, probe_step
from testbed.stream.probe import foreseen as foreseen_of_probe
from testbed.stream.simulated import SimulatedStreamFabric
from testbed.stream.workload import stream_plan
from tests.helpers.drawn import SOAK


def plan_of(manner: str, lasts_s: float, seed: int = 1) -> StreamPlan:
    faults = [f"s1->s2@1-{1 + lasts_s:g} {manner}"]
    return stream_plan(
        "swiss-t1", "s1", "s6", faults=faults, duration_s=lasts_s + 2.5, symbol_bytes=8, seed=seed
    )


def unsure(plan: StreamPlan) -> set[str]:
    run = SimulatedStreamFabric().run(plan)
    return {c.key for c in judge(Analysis(plan, run)).checks if c.outcome == "cannot-tell"}


@pytest.mark.parametrize(
    "manner",
    [
        pytest.param("ge:p=0.01,r=0.2", marks=pytest.mark.long),
        *("loss:0.02", "loss:0.3", "duplicate:0.1", "down", "loss 0.3"),
    ],
)
def test_too_few_packets_are_reported_beforehand_with_a_sufficient_number(manner: str) -> None:
    """A run of half as many packets as are asked for cannot tell, one of twice as many can."""
    lengths = [0.03 * 1.25**k for k in range(40)]
    shortest = lengths[
        bisect_left(lengths, True, key=lambda s: not list(foreseen(plan_of(manner, s))))
    ]
    assert list(foreseen(plan_of(manner, shortest / 2.1))) and unsure(
        plan_of(manner, shortest / 2.1)
    )
    assert not unsure(plan_of(manner, max(2.0 * shortest, 0.8)))


def test_a_link_that_is_met_beside_others_only_is_told() -> None:
    faults = [f"{a}->{b}@1-9 loss:0.1" for a, b in (("s0", "s1"), ("s1", "s2"), ("s0", "s3"))]
    plan = stream_plan("ring:4", "s0", "s2", faults=faults, duration_s=10.0, symbol_bytes=8)
    assert [line.partition(":")[0] for line in foreseen(plan)] == ["s0->s1 loss", "s1->s2 loss"]
    assert all("some 0 packets" in line for line in foreseen(plan)) and "unpredicted" in unsure(
        plan
    )
    assert not list(foreseen(stream_plan("ring:4", "s0", "s2", faults=faults[2:], duration_s=10.0)))


@pytest.mark.scaled
@pytest.mark.parametrize(
    ("network", "ends", "labels", "link"),
    [
        ("swiss-t1", ("s1", "s6"), "random", None),
        ("swiss-t1", ("s1", "s6"), "stratified", None),
        ("optical-cloud", ("x2", "x13"), "stratified", "x4->x11"),
    ],
)
def test_a_probe_says_which_of_its_sizes_its_blocks_cannot_settle(
    network: str, ends: tuple[str, str], labels: str, link: str | None
) -> None:
    layers = 3 if link else None
    options = StreamOptions(
        network=network,
        source=ends[0],
        sink=ends[1],
        labels=labels,
        layers=layers,
        symbol_bytes=8,
        faults="none",
    )  # type: ignore[arg-type]
    for blocks in (300, 900) if SOAK else (300,):
        probe = build_probe(options, blocks=blocks, link=link)
        told = list(foreseen_of_probe(probe))
        sizes = sorted({int(line.split()[2]) for line in told})
        runs = [
            (step, SimulatedStreamFabric().run(step))
            for step in (probe_plan(probe.plan, probe.link, n, blocks) for n in _sizes(probe))
        ]
        verdict = judge_probe(probe.plan, [probe_step(*one) for one in runs], None)
        assert not [c for c in verdict.checks if c.outcome == "fails"]
        open_left = sorted(
            int(c.about.split(":")[1]) for c in verdict.checks if c.outcome == "cannot-tell"
        )
        assert set(open_left) <= set(sizes), "what was not told beforehand is told apart"
        assert link is None or open_left == [_sizes(probe)[1]], (
            "its N - 1 fails no block in this phase"
        )


def _sizes(probe: object) -> list[int]:
    from testbed.stream.probe import _steps

    return [step.stream.block_size or 0 for step in _steps(probe)]  # type: ignore[arg-type]


def test_probe_settled_by_enough_blocks_names_their_number() -> None:
    options = StreamOptions(
        network="swiss-t1", source="s1", sink="s6", labels="random", symbol_bytes=8, faults="none"
    )
    few, many = (
        list(foreseen_of_probe(build_probe(options, blocks=n, link=None))) for n in (1000, 60_000)
    )
    assert len(few) == 2 and "too small" in few[1] and not many
    blocks = float(few[0].split()[-3])
    step = probe_plan(
        build_probe(options, blocks=10, link=None).plan, ("s1", "s2", 0), int(few[0].split()[2]), 10
    )
    chance = predicted_failure(step, step.stream.block_size or 0, np.arange(3))
    assert blocks == pytest.approx(3.29**2 * chance * (1 - chance) / (chance - 0.01) ** 2, rel=0.05)


@pytest.mark.parametrize("file_bytes", [1, 20_000, 100_000, 400_000, 1_600_000, 6_400_000])
def test_a_download_too_small_to_tell_its_rivals_apart_says_so(file_bytes: int) -> None:
    plan = download_plan("swiss-t1", "s1", "s6", file_bytes=file_bytes)
    judged = judge_download(plan, simulate_download(plan)).verdict
    rivals = {
        check.key
        for check in judged.checks
        if check.outcome == "cannot-tell" and check.key != "faults-came"
    }
    told = {
        "seconds" if "seconds until" in line else "packets-sent"
        for line in foreseen_of_download(plan)
    }
    assert rivals == told
