"""Shapes of an access on real switches: optimisations left out one by one, fragments in memory and file, a disk that is
slow."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.emulation


def all_counted(root: str, without: list[list[str]]) -> list[dict[str, Any]]:
    """Inside a sandbox: ``counted``, one after the other."""
    return [counted(root, each) for each in without]


def counted(root: str, without: list[str]) -> dict[str, Any]:
    """The counts of a write of random blocks."""
    from testbed.striping.judgement import judge_striping
    from testbed.striping.workload import run_striping, striping_plan

    plan = striping_plan(
        "crossbar:5",
        compute_nodes=2,
        io_nodes=3,
        file_bytes=300_000,
        access="random",
        access_block_bytes=1000,
        disable=tuple(without),  # type: ignore[arg-type]
    )
    (found,) = judge_striping(plan, run_striping(plan, Path(root))).document["operations"]
    return {key: found[key] for key in ("messages", "requests", "disk_calls", "verified")}


@pytest.mark.unclocked
def test_each_optimisation_saves_what_it_is_for(
    sandboxed: Callable[..., Any], tmp_path: Path
) -> None:
    without = [[], ["sort"], ["merge"], ["combine"]]
    whole, unsorted, apart, single = sandboxed(all_counted, str(tmp_path), without)
    assert all(found["verified"] for found in (whole, unsorted, apart, single))
    assert unsorted["disk_calls"] > whole["disk_calls"] and apart["requests"] > whole["requests"]
    assert single["messages"] == whole["requests"] > 10 * whole["messages"]


SHAPES = {
    f"{operation}, {names}": {
        "operation": operation,
        "in_memory": memory,
        "in_file": file,
        "at_once": at_once,
    }
    for operation in ("write", "read")
    for names, memory, file, at_once in (
        ("both", True, True, True),
        ("in memory, one by one", True, False, False),
        ("in the file", False, True, True),
    )
}
REPEATED = (
    "write, in the file",
    "write, in memory, one by one",
    "read, in memory, one by one",
    "read, both",
    "write, both",
)
"""Left to `make soak`: `make test` tries what they are made of another way."""


def fragmented(shape: dict[str, Any]) -> dict[str, Any]:
    """Inside a sandbox: two processes, pieces of 100 bytes, in that shape."""
    from testbed.striping.emulated.fragmented_access import FragmentedAccess, run_fragmented

    access = FragmentedAccess(
        bytes_each=6_000, piece_bytes=100, stripe_unit=70, repeat=1, seed=3, **shape
    )
    return run_fragmented("crossbar:2", 2, 20e6, access)


@pytest.mark.unclocked
@pytest.mark.parametrize(
    "shape",
    [pytest.param(one, marks=[pytest.mark.soak] if one in REPEATED else []) for one in SHAPES],
)
def test_fragments_in_memory_and_in_the_file_arrive_where_they_belong(
    sandboxed: Callable[..., Any], shape: str
) -> None:
    found = sandboxed(fragmented, SHAPES[shape])
    assert found["verified"] and len(found["seconds"]) == 1 and found["seconds"][0] > 0


def paced(place: str) -> list[float]:
    """Inside a sandbox: seconds of a megabyte, the disk at a megabyte a second and as fast as it goes."""
    from testbed.striping.emulated.paced_disk import paced_disk

    found = []
    for rate in (1e6, None):
        with paced_disk(Path(place), 8 << 20, rate):
            start_s = time.monotonic()
            (Path(place) / "file").write_bytes(bytes(1_000_000))
            found.append(time.monotonic() - start_s)
            late = subprocess.Popen(
                ["sleep", "0.3"], cwd="/"
            )  # a child that outlives the disk kept its group (EBUSY)
    late.wait()
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="loop devices need root")
def test_a_paced_disk_writes_at_its_rate_and_leaves_nothing(
    sandboxed: Callable[..., Any], tmp_path: Path
) -> None:
    place = tmp_path / "mounted"
    place.mkdir()
    slow_s, fast_s = sandboxed(paced, str(place))
    assert 0.7 < slow_s < 1.6 and fast_s < 0.3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mounted"] and not any(
        place.iterdir()
    )
    assert not list(Path("/sys/fs/cgroup/blkio").glob("testbed-*"))
