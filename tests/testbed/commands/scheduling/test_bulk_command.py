"""testbed bulk from outside: one JSON object, exit codes, bad input in one line; on the simulated fabric but for one
run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import in_process
from tests.helpers.warm import TESTBED, run

NETWORK = "swiss-t1:allocation=1-1-0-0-1-0-0-0"


def testbed(tmp_path: Path, *words: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    command = [*TESTBED, "bulk", *words, "--results", str(tmp_path / "results")]
    return run(command, capture_output=True, text=True, timeout=timeout_s, check=False)


testbed.__test__ = False  # type: ignore[attr-defined]


def simulated(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return in_process(
        "bulk", *words, "--results", str(tmp_path / "results"), "--fabric", "simulator"
    )


def test_bulk_json_has_both_switchings_and_report_redraws_the_page(tmp_path: Path) -> None:
    done = simulated(tmp_path, NETWORK, "--json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["bytes"] == 9_000_000 and document["verified"] is True
    assert document["ratio"] == pytest.approx(1.0)
    assert document["throughput_bps"] == pytest.approx(document["liquid_throughput_bps"])
    assert document["frames"] == document["bottleneck_load"] == 3
    assert document["seconds"] == pytest.approx(1.2)
    assert (
        set(document["other_switching"]) == {"packet"}
        and document["other_switching"]["packet"]["verified"] is True
    )
    stored = Path(document["results"])
    assert {"page.html", "points.jsonl", "figure-time-frames.svg"} <= {
        p.name for p in stored.iterdir()
    }
    drawing = (stored / "figure-time-frames.svg").read_bytes()
    (stored / "figure-time-frames.svg").unlink()
    again = in_process("report", str(stored))
    assert again.returncode == 0, again.stderr
    assert (stored / "figure-time-frames.svg").read_bytes() == drawing


@pytest.mark.parametrize("words", ["none", "[]"])
def test_no_faults_leave_both_switchings(words: str, tmp_path: Path) -> None:
    done = simulated(tmp_path, "crossbar:3", "--message-size", "20kB", "--faults", words, "--json")
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["other_switching"]) == {"packet"}


def test_identical_order_is_slow_as_its_virtual_run_says(tmp_path: Path) -> None:
    done = simulated(tmp_path, NETWORK, "--scheduling", "identical", "--json", "--no-comparison")
    document = json.loads(done.stdout)
    assert (
        document["ratio"] == pytest.approx(document["predicted_ratio"]) and document["ratio"] < 0.5
    )
    assert document["other_switching"] == {}


def test_a_ring_that_deadlocks_may_end_the_run_and_says_so(tmp_path: Path) -> None:
    words = (
        "ring:6",
        "--scheduling",
        "round-robin",
        "--no-barrier",
        "--no-comparison",
        "--message-size",
        "10kB",
    )
    failed = simulated(tmp_path, *words, "--on-deadlock", "fail")
    assert failed.returncode == 1 and "deadlock" in failed.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((NETWORK, "--message-size", "much"), "--message-size"),
        ((NETWORK, "--message-size", "0"), "give bytes, 1 to"),
        ((NETWORK, "--link-rate", "-1"), "--link-rate"),
        ((NETWORK, "--scheduling", "best"), "'best'"),
        ((NETWORK, "--kill", "r5"), "NODE@TIME"),
        ((NETWORK, "--kill", "r5@1"), "r5"),
        ((NETWORK, "--pattern", "nowhere.json"), "nowhere.json"),
        ((NETWORK, "--faults", "nowhere.json"), "nowhere.json"),
        ((NETWORK, "--inject-packets", "-1"), "--inject-packets"),
        (("swiss-t1:allocation=5-0-0-0-0-0-0-0",), "allocation"),
        (("swiss-t1:allocation=0-0-0-0-0-0-0-0",), "host"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    done = simulated(tmp_path, *words)
    assert done.returncode == 2, done.stdout + done.stderr
    assert says in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert not done.stdout


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        ([["t0", "r9"]], "r9"),
        ([["t0", "s1"]], "s1"),
        ([["t0", "t0"]], "both source and destination"),
        ([["t0", "r0"], ["t0", "r0"]], "duplicate pair"),
        ([["t0"]], "pair 0"),
        ([], "one pair or more"),
        ({"transfers": []}, "pairs"),
    ],
)
def test_a_pattern_that_cannot_be_run_is_named(tmp_path: Path, pairs: Any, says: str) -> None:
    from testbed.bulk.workload import bulk_plan
    from testbed.scheduling.traffic.patterns import parse_pairs
    from topologies import load_network

    with pytest.raises(ValueError, match=says):
        network = load_network(NETWORK)
        pattern = tuple(parse_pairs(pairs, network, "pattern"))
        bulk_plan(network, pattern=pattern)


@pytest.mark.emulation
def test_a_run_on_switches_prints_one_object(tmp_path: Path, valid_run: Callable[..., Any]) -> None:
    words = (
        NETWORK,
        "--message-size",
        "200kB",
        "--link-rate",
        "10Mbps",
        "--json",
        "--scheduling",
        "round-robin",
    )
    done = valid_run(lambda: testbed(tmp_path, *words, timeout_s=120))
    document = json.loads(done.stdout)
    assert document["verified"] is True and document["fabric"] == "emulation"
    assert document["other_switching"]["packet"]["verified"] is True
    assert (
        done.returncode == (0 if document["verdict"]["passed"] else 1)
        and not document["verdict"]["invalid"]
    )
