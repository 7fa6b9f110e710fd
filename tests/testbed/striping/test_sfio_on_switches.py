"""Striped files on real switches: the papers' programs, schedules against their absence, a cut link, a listener that
dies."""

from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.paths import ROOT
from tests.helpers.warm import TESTBED, run

pytestmark = pytest.mark.emulation
LINK_RATE_BPS = 5e6
EXAMPLES = ROOT / "examples"


def program(root: Path, *words: str, compute: int, io: int = 2) -> subprocess.CompletedProcess[str]:
    command = [*TESTBED, "run", "crossbar:4"]
    command += [
        "--compute-nodes",
        str(compute),
        "--io-nodes",
        str(io),
        "--subfile-dir",
        str(root),
        "--",
        *words,
    ]
    return run(command, capture_output=True, text=True, timeout=120, check=False)


def accessed(network: str, root: str, options: dict[str, Any]) -> dict[str, Any]:
    """Inside a sandbox: the document of one run, invalid ones too: every test asks for content and for bounds of its
    own, which a machine that cannot keep up does not keep by chance."""
    from testbed.bulk.plan import KilledProcess
    from testbed.faults.fault import Fault
    from testbed.striping.judgement import judge_striping
    from testbed.striping.workload import run_striping, striping_plan

    faults = tuple(
        Fault(link=tuple(link), start_s=a, stop_s=b) for link, a, b in options.pop("cut", [])
    )
    for link, a, b, words in options.pop("impaired", []):
        faults += (
            Fault(link=tuple(link), kind="impaired", start_s=a, stop_s=b, impairments=words),
        )
    killed = tuple(KilledProcess(node=node, at_s=at_s) for node, at_s in options.pop("killed", []))
    plan = striping_plan(network, faults=faults, kill=killed, **options)
    return dict(judge_striping(plan, run_striping(plan, Path(root))).document)


@pytest.mark.unclocked
def test_the_papers_first_program_writes_its_two_subfiles(tmp_path: Path) -> None:
    done = program(tmp_path, "python", str(EXAMPLES / "hello.py"), compute=1)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "p1/tmp/a1.dat").read_bytes() == b"Hellod"
    assert (tmp_path / "p2/tmp/a2.dat").read_bytes() == b" Worl"


@pytest.mark.unclocked
def test_the_papers_second_program_writes_figure_11_byte_for_byte(tmp_path: Path) -> None:
    done = program(tmp_path, "python", str(EXAMPLES / "greetings.py"), compute=3)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "p1/tmp/a.dat").read_bytes() == b"Good*ng!Bo!Buontina!"
    assert (tmp_path / "r1/tmp/a.dat").read_bytes() == b"morninjoura*mat", (
        "by the network's own name too"
    )


@pytest.mark.unclocked
def test_ranks_are_told_apart_and_the_first_that_fails_ends_the_program(tmp_path: Path) -> None:
    script = tmp_path / "ranks.py"
    script.write_text(
        textwrap.dedent("""
            import socket, sys, time
            from sfio_emu import rank, size
            from sfio_emu.client.current_session import current_session
            print(f"rank {rank()} of {size()}", flush=True)
            current_session().group.barrier()
            if rank() == 1:
                sys.exit(7)
            time.sleep(60)
        """)
    )
    done = program(tmp_path, "python", str(script), compute=3)
    assert done.returncode == 7
    assert sorted(done.stdout.splitlines()) == [f"rank {k} of 3" for k in range(3)]
    assert "rank 1 on t1 ended with exit code 7" in done.stderr


@pytest.mark.unclocked
def test_ranks_run_in_the_networks_of_their_own_hosts(tmp_path: Path) -> None:
    words = ("sh", "-c", "ip -4 -o address show scope global | grep -o '10[.0-9]*/8'")
    done = program(tmp_path, *words, compute=2)
    assert sorted(done.stdout.split()) == ["10.0.0.1/8", "10.0.0.3/8"], done.stderr


@pytest.mark.long
def test_client_of_three_listeners_gets_90_percent_of_the_link_at_75_bytes(
    sandboxed: Callable[..., Any], timely: Callable[..., None], tmp_path: Path
) -> None:
    def run() -> str | None:
        options = {
            "compute_nodes": 1,
            "io_nodes": 3,
            "stripe_unit": 75,
            "file_bytes": 2_000_000,
            "operation": "both",
        }
        options |= {"link_rate_bps": LINK_RATE_BPS}
        found = sandboxed(accessed, "crossbar:4", str(tmp_path), options)
        slow = []
        for operation in found["operations"]:
            assert operation["verified"] and operation["fragments"] > 1000 * operation["messages"]
            if operation["throughput_bps"] < 0.9 * LINK_RATE_BPS:
                slow.append(
                    f"{operation['direction']} at {operation['throughput_bps'] / 1e6:.2f} of 5 Mbit/s"
                )
        failed = [check["name"] for check in found["verdict"]["checks"] if not check["passed"]]
        assert all("throughput" in name for name in failed) and (slow or not failed), found[
            "verdict"
        ]
        return ", ".join(slow) or None

    timely(run)


def test_a_liquid_schedule_is_faster_than_circuits_asked_for_as_they_come(
    sandboxed: Callable[..., Any], timely: Callable[..., None], tmp_path: Path
) -> None:
    common = {"compute_nodes": 16, "io_nodes": 16, "file_bytes": 12_800_000, "switching": "circuit"}
    common |= {"link_rate_bps": 10e6}
    network = "swiss-t1:allocation=2-2-2-2-2-2-2-2"

    def run() -> str | None:
        speeds = []
        for schedule in ("liquid", "none"):
            document = sandboxed(
                accessed, network, str(tmp_path), {"scheduling": schedule, **common}
            )
            assert document["verified"] and not document["operations"][0]["errors"]
            speeds.append(document["throughput_bps"])
        return (
            None
            if speeds[0] >= 1.3 * speeds[1]
            else f"liquid {speeds[0]:.0f} bit/s, as they come {speeds[1]:.0f}"
        )

    timely(run)


def test_a_link_cut_in_a_write_is_told_in_time_and_the_next_write_succeeds(
    sandboxed: Callable[..., Any], timely: Callable[..., None], tmp_path: Path
) -> None:
    def run() -> str | None:
        options = {
            "compute_nodes": 2,
            "io_nodes": 3,
            "file_bytes": 2_000_000,
            "cut": [[["s1", "r1", 0], 0.1, 30.0]],
        }
        broken, again = sandboxed(accessed, "crossbar:4", str(tmp_path), options)["operations"]
        assert [e["text"].partition(":")[0] for e in broken["errors"]] == ["r1", "r1"], (
            "the listener is named"
        )
        assert again["verified"] and not again["errors"]
        return told_late(broken, 2.5)

    timely(run)


def told_late(broken: dict[str, Any], limit_s: float) -> str | None:
    slowest = max(e["since_fault_s"] for e in broken["errors"])
    return (
        None if slowest <= limit_s else f"told {slowest:.2f} s after the fault, limit {limit_s:g} s"
    )


@pytest.mark.unclocked
def test_file_over_an_impaired_cable_is_complete_and_slower(
    sandboxed: Callable[..., Any], tmp_path: Path
) -> None:
    """Every packet to and from one I/O node waits 40 ms and is sent twice in a while; the rival is a fault that never
    came."""
    options = {"compute_nodes": 2, "io_nodes": 2, "file_bytes": 400_000, "operation": "write"}
    whole = sandboxed(accessed, "crossbar:4", str(tmp_path / "whole"), dict(options))["operations"]
    slow = {"impaired": [[["t0", "s1", 0], 0.0, 20.0, "delay:0.04 duplicate:0.1"]]}
    found = sandboxed(accessed, "crossbar:4", str(tmp_path / "slow"), options | slow)
    assert found["cut_links"] == [] and found["impaired_links"][0][0].startswith("t0->s1 ")
    (record, *_) = found["operations"]
    assert record["under_faults"] and record["verified"] and not record["errors"]
    assert record["seconds"] > whole[0]["seconds"] + 0.04


def test_killed_listener_is_named_at_once_and_the_next_write_succeeds(
    sandboxed: Callable[..., Any], timely: Callable[..., None], tmp_path: Path
) -> None:
    def run() -> str | None:
        options = {
            "compute_nodes": 2,
            "io_nodes": 3,
            "file_bytes": 2_000_000,
            "killed": [["p2", 0.1]],
        }
        broken, again = sandboxed(accessed, "crossbar:4", str(tmp_path), options)["operations"]
        assert {e["text"].partition(":")[0] for e in broken["errors"]} == {"r1"}
        assert again["verified"] and not again["errors"]
        return told_late(broken, 2.0)

    timely(run)
