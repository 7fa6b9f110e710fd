"""``testbed simulate`` from outside: its JSON, its exit codes, its one line for bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.cli import main

QUICK = ["simulate", "torus:4x4", "--duration", "0.005"]


def test_json_has_the_keys_that_others_rely_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--seeds", "2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    keys = {"mean_latency_s", "network_latency_s", "throughput", "sent", "received", "deadlocked", "packet_hops"}
    assert keys | {"per_seed", "verdict"} <= set(document)
    assert document["sent"] == document["received"] > 0 and len(document["per_seed"]) == 2
    assert document["mean_latency_s"] >= document["network_latency_s"] > 33 * 256e-9


def test_a_deadlock_fails_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    line = "ring:8 --pattern tornado --rate 40000 --rate-unit packets/s --model thesis --duration 0.05"
    words = ["simulate", *line.split()]
    assert main([*words, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["deadlocked"] is True
    assert main([*words, "--deadlock", "nac"]) == 0
    assert "NAC moves" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words, says",
    [
        ("torus:4x4 --rate 1.5", "fraction of a link"),
        ("torus:4x4 --packet-bytes 9000", "larger than a buffer"),
        ("torus:3x3 --pattern transpose", "power of two"),
        ("torus:4x4 --deadlock virtual-channels --virtual-channels 1", "2 or more"),
        ("fat-tree:2,3 --routing dor", "no dimension order"),
        ("torus:4x4 --routing ft-drb --faults s0_0-s2_2", "no such link"),
        ("torus:4x4 --traffic no-such-file.json", "no-such-file.json"),
        ("torus:4x4 --seeds 0", "--seeds"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(words: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *words.split()]) == 2
    error = capsys.readouterr().err.strip()
    assert says in error and "\n" not in error


def test_a_traffic_file_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "traffic.json"
    file.write_text(json.dumps({"transfers": [["h0_0", "h1_1"], ["h1_0", "h2_2"]]}))
    assert main(["simulate", "torus:4x4", "--traffic", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["received"] == 2
