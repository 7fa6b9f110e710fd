"""``testbed simulate`` from outside: its JSON, its exit codes, its one line for bad input."""

from __future__ import annotations

import contextlib
import functools
import io
import json
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.errors import InputError
from testbed.simulation.options import SimulationOptions
from testbed.simulation.planning import split_faults
from tests.helpers.failure_samples import sample_lanl_table
from topologies import load_network

QUICK = ["simulate", "torus:4x4", "--duration", "0.005"]


def test_json_has_the_keys_that_others_rely_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--repetitions", "2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    keys = {
        "mean_latency_s",
        "network_latency_s",
        "throughput",
        "sent",
        "received",
        "deadlocked",
        "packet_hops",
    }
    assert keys | {"per_seed", "verdict"} <= set(document)
    assert document["sent"] == document["received"] > 0 and len(document["per_seed"]) == 2
    assert document["mean_latency_s"] >= document["network_latency_s"] > 33 * 256e-9


def test_a_deadlock_fails_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    line = "ring:8 --pattern tornado --packet-rate 40000 --model thesis --duration 0.05"
    words = ["simulate", *line.split()]
    assert main([*words, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["deadlocked"] is True
    assert main([*words, "--deadlock-avoidance", "nac"]) == 0
    assert "moves" in capsys.readouterr().out  # of NAC; the heading may take two lines


@pytest.mark.parametrize(
    "words, says",
    [
        ("torus:4x4 --load 1.5", "fraction of a link"),
        ("torus:4x4 --packet-size 9000", "larger than a buffer"),
        ("torus:3x3 --pattern transpose", "power of two"),
        ("torus:4x4 --deadlock-avoidance virtual-channels --virtual-channels 1", "2 or more"),
        ("fat-tree:2,3 --routing dor", "no dimension order"),
        ("torus:4x4 --routing ft-drb --faults s0_0-s2_2", "no such link"),
        ("torus:4x4 --traffic no-such-file.json", "no-such-file.json"),
        ("torus:4x4 --repetitions 0", "--repetitions"),
        ("torus:4x4 --marking clock", "--routing ft-drb"),
        ("torus:4x4 --probe-period 0.1", "--probe-period"),
        ("torus:4x4 --routing ft-drb --notifications 0", "--notifications: '0'"),
        ("torus:4x4 --no-nac-reserve-slot", "--deadlock-avoidance nac"),
        ("torus:4x4 --nac-trace events.csv", "--nac-trace"),
        ("torus:4x4 --deadlock-avoidance nac --nac-slack 9", "--nac-slack: '9'"),
        ("torus:4x4 --deadlock-avoidance nac --nac-trace no/such/events.csv", "no such directory"),
        ("torus:4x4 --faults line:x", "whole number"),
        ("torus:4x4 --faults line:4", "do not fit"),
        ("ring:8 --faults line:2", "no 2-D torus"),
        ("torus:4x4 --faults transient:2@0.1", "without times"),
        ("torus:4x4 --faults hexagon:2", "or a shape"),
        ("torus:4x4 --trace-skip-bad-rows", "trace:FILE"),
        ("torus:4x4 --faults trace:no-such-trace.csv", "no-such-trace.csv"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    words: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *words.split()]) == 2
    error = capsys.readouterr().err.strip()
    assert says in error and "\n" not in error


def test_a_traffic_file_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "traffic.json"
    file.write_text(json.dumps({"transfers": [["h0_0", "h1_1"], ["h1_0", "h2_2"]]}))
    assert main(["simulate", "torus:4x4", "--traffic", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["received"] == 2


@pytest.mark.parametrize(
    "option",
    [
        "--marking clock --marking-time 0.001",
        "--marking hybrid --notifications 2",
        "--probing clock --probe-period 0.00001",
        "--probing hybrid --probe-every 10",
        "--failure-notifier destination",
        "--repair-detection router",
        "--notification-reuse",
        "--notify-queued-sources",
        "--max-paths 2 --initial-paths 2 --always-metapaths",
        "--latency-threshold 1.1 --latency-tolerance 0.01 --ack-size 128",
    ],
)
def test_each_ft_drb_design_option_changes_the_run_and_delivers_all(option: str) -> None:
    # long enough that packets wait for a link when it fails: in 4 ms of seed 1 none did, and --notify-queued-sources
    # had nobody to notify
    line = "torus:4x4 --routing ft-drb --deadlock-avoidance nac --load 0.8 --duration 0.012 --model thesis"
    faults = "--faults transient:8"
    usual, other = (_measured(f"{line} {faults} {words}") for words in ("", option))
    assert other["sent"] == other["received"] == usual["sent"]
    assert other["per_seed"][0]["ft_drb"] != usual["per_seed"][0]["ft_drb"]


@pytest.mark.parametrize(
    "option",
    [
        "--nac-slack 1",
        "--nac-control-delay 1e-6",
        "--nac-retry-interval 1e-4",
        "--no-nac-repeat-when-full",
        "--no-nac-reserve-slot",
        "--no-nac-throttle-injection",
        "--no-nac-recovery-signal",
    ],
)
def test_every_decision_on_nac_is_an_option_that_changes_what_it_does(option: str) -> None:
    line = "ring:8 --load 0.5 --model thesis --duration 0.004 --deadlock-avoidance nac"
    usual, other = (_measured(f"{line} {words}")["per_seed"][0]["nac"] for words in ("", option))
    assert other != usual


@pytest.mark.parametrize("shape, links", [("line:2", 2), ("square:2", 8), ("L:2", 4), ("U:2", 6)])
def test_a_shape_of_failed_links_has_its_legs(shape: str, links: int) -> None:
    found = _measured(
        f"torus:4x4 --routing ft-drb --deadlock-avoidance nac --duration 0.002 --faults {shape}"
    )
    assert found["per_seed"][0]["faults"] == links and found["received"] == found["sent"]


def test_broken_trace_row_is_refused_by_number_or_skipped_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = sample_lanl_table()
    lines.insert(2, "1,oops\n")
    file = tmp_path / "trace.csv"
    file.write_text("".join(line if line.endswith("\n") else line + "\n" for line in lines))
    system = lines[1].split(",")[0]
    words = (
        f"torus:8x8 --routing ft-drb --deadlock-avoidance nac --duration 0.005 --faults trace:{file} "
        f"--trace-system {system}"
    )
    assert main(["simulate", *words.split()]) == 2
    assert "row 3" in capsys.readouterr().err
    found = _measured(f"{words} --trace-skip-bad-rows")
    assert found["trace"]["bad_rows"] == [3] and found["trace"]["failures"] > 0
    assert found["received"] == found["sent"]
    capsys.readouterr()
    assert main(["simulate", *words.split(), "--trace-skip-bad-rows", "--trace-permanent"]) == 0
    assert "1 bad row skipped (3)" in " ".join(capsys.readouterr().out.split())


def test_the_timeline_has_a_line_for_every_move_that_is_counted(tmp_path: Path) -> None:
    file = tmp_path / "events.csv"
    line = "ring:8 --pattern tornado --packet-rate 40000 --model thesis --duration 0.002 --deadlock-avoidance nac"
    found = _measured(f"{line} --repetitions 2 --nac-trace {file}")
    events = [row.split(",") for row in file.read_text().splitlines()]
    assert events[0] == ["seed", "time_s", "event", "router", "input_link"]
    for row in found["per_seed"]:
        mine = [event for event in events[1:] if event[0] == str(row["seed"])]
        assert sum(event[2] == "moved" for event in mine) == row["nac"]["moved"] > 0
        assert sum(event[2] == "identified" for event in mine) == row["nac"]["identified"]
        times = [float(event[1]) for event in mine]
        assert times == sorted(times)
        assert all(event[4].endswith(f"-{event[3]}") for event in mine)


@functools.cache
def _measured(words: str) -> dict[str, Any]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main(["simulate", *words.split(), "--json"])
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def test_faults_of_a_file_are_those_of_the_words(tmp_path: Path) -> None:
    network, file = load_network("torus:4x4"), tmp_path / "faults.json"
    asked = SimulationOptions("torus:4x4", faults=str(file))
    listed = [
        {"link": "s0_0->s0_1", "start_s": 0.1, "stop_s": 0.2},
        {"link": "s1_1->s1_2", "start_s": 0.3, "stop_s": 1},
    ]
    file.write_text(json.dumps(listed))
    assert split_faults(asked, network) == ('"s0_0"->"s0_1"@0.1-0.2,"s1_1"->"s1_2"@0.3-1', None)
    file.write_text("[]")
    assert split_faults(asked, network) == (None, None)
    file.write_text(json.dumps([listed[0] | {"kind": "blackhole"}]))
    with pytest.raises(InputError, match="blackhole: cables are down, both ways, or work here"):
        split_faults(asked, network)


def test_a_packet_rate_beyond_the_link_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "torus:4x4", "--packet-rate", "1M"]) == 2
    assert (
        "--packet-rate 1e+06: give at most a full link, 122070 packets a second"
        in capsys.readouterr().err
    )
