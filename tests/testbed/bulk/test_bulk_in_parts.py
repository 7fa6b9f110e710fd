"""Bulk transfers in equal parts: each on a route of its own, from options and from schedule files, in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.bulk.simulated import SimulatedBulkFabric
from testbed.bulk.workload import bulk_plan
from testbed.cli import main
from testbed.errors import InputError


@pytest.mark.parametrize(
    ("network", "parts"), [("bipartite:4,4", 2), ("torus:4x4", 2), ("hypercube:3", 4)]
)
def test_parts_are_transfers_of_their_own_at_the_bound(network: str, parts: int) -> None:
    whole = bulk_plan(network, routing="balanced", message_bytes=120_000)
    plan = bulk_plan(network, parts=parts, message_bytes=120_000)
    assert (
        plan.parts == parts
        and plan.message_bytes * parts == 120_000
        and plan.total_bytes == whole.total_bytes
    )
    assert (
        len({t.ends for t in plan.transfers}) == len(plan.transfers) == parts * len(whole.transfers)
    )
    for frame in plan.frames:
        links = [link for i in frame for link in plan.transfers[i].path]
        assert len(set(links)) == len(links)
    run = SimulatedBulkFabric().run(plan)
    assert run.failure is None and run.delivered == len(plan.transfers)
    assert run.seconds == pytest.approx(plan.bottleneck_load * plan.message_s)


@pytest.mark.parametrize("network", ["bipartite:4,4", "gpu-machines:2,4"])
def test_a_schedule_file_brings_its_parts_along(network: str, tmp_path: Path) -> None:
    file = str(tmp_path / "schedule.json")
    assert (
        main(["schedule", network, "--pattern", "all-to-others", "--parts", "2", "--output", file])
        == 0
    )
    plan = bulk_plan(network, schedule=file, message_bytes=100_000)
    assert (plan.parts, plan.message_bytes, plan.method) == (2, 50_000, "file")
    assert len(plan.frames) == plan.bottleneck_load
    assert SimulatedBulkFabric().run(plan).delivered == len(plan.transfers) == 2 * 8 * 7


def test_a_part_that_is_forgotten_or_no_whole_number_of_bytes_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "schedule.json"
    links = [
        ["h0->s0", "s0->s1", "s1->s2", "s2->h2"],
        ["h0->s0", "s0->s3", "s3->s2", "s2->h2"],
        ["h1->s1", "s1->s0", "s0->h0"],
    ]
    file.write_text(str({"transfers": links, "frames": [[0, 2], [1]]}).replace("'", '"'))
    with pytest.raises(InputError, match="no transfer h1 to h0"):
        bulk_plan("ring:4", schedule=str(file))
    with pytest.raises(InputError, match="into 3 equal parts"):
        bulk_plan("ring:4", parts=3, message_bytes=1_000_000)


def test_round_robin_sends_the_parts_one_after_another() -> None:
    plan = bulk_plan("bipartite:2,2", parts=2, scheduling="round-robin")
    assert [len(frame) for frame in plan.frames] == [4] * 6
    assert all(len({plan.transfers[i].source for i in frame}) == 4 for frame in plan.frames)
