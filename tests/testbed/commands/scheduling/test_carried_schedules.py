"""A schedule that one command writes another carries out: bulk transfers and striped files, in the very time frames of
the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main

SWISS_T1 = "swiss-t1:allocation=1-1-1-1-0-0-0-0"
SFIO = ["sfio", "swiss-t1", "--compute-nodes", "4", "--io-nodes", "4", "--fabric", "simulator"]


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0, capsys.readouterr().err
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def bulk(
    capsys: pytest.CaptureFixture[str], folder: Path, network: str, *words: str
) -> dict[str, Any]:
    run = ["--fabric", "simulator", "--message-size", "10kB", "--results", str(folder)]
    return asked(capsys, "bulk", network, *words, *run)


@pytest.mark.parametrize(
    ("network", "method"),
    [
        ("two-switch", "round-robin"),
        ("ring:5", "dsatur"),
        (SWISS_T1, "liquid"),
        pytest.param("two-switch", "liquid", marks=pytest.mark.long),
        pytest.param("two-switch", "dsatur", marks=pytest.mark.long),
        pytest.param("ring:5", "liquid", marks=pytest.mark.long),
        pytest.param("ring:5", "round-robin", marks=pytest.mark.long),
        pytest.param(SWISS_T1, "round-robin", marks=pytest.mark.long),
        pytest.param(SWISS_T1, "dsatur", marks=pytest.mark.long),
    ],
)
def test_bulk_carries_out_what_schedule_wrote(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, network: str, method: str
) -> None:
    file = str(tmp_path / "s.json")
    schedule = asked(
        capsys,
        "schedule",
        network,
        "--pattern",
        "all-to-others",
        "--scheduling",
        method,
        "--output",
        file,
    )
    found = bulk(capsys, tmp_path, network, "--schedule", file)
    assert (found["transfers"], found["frames"]) == (len(schedule["transfers"]), schedule["length"])
    assert found["method"] == "file" and found["rounds"] is None and found["verdict"]["passed"]
    if method == "liquid" and schedule["liquid"]:
        assert found["ratio"] == pytest.approx(1, abs=0.01)


#: More networks for `make soak`.
MORE_NETWORKS = ("ring:5", "optical-cloud")


@pytest.mark.parametrize(
    "network",
    ["two-switch", "torus:3x3", *(pytest.param(n, marks=pytest.mark.long) for n in MORE_NETWORKS)],
)
@pytest.mark.parametrize("method", ["round-robin", "random", "identical"])
def test_a_method_has_as_many_time_frames_in_both_commands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, network: str, method: str
) -> None:
    scheduled = asked(
        capsys, "schedule", network, "--pattern", "all-to-others", "--scheduling", method
    )
    sent = bulk(capsys, tmp_path, network, "--scheduling", method, "--no-comparison")
    assert (sent["transfers"], sent["frames"]) == (len(scheduled["transfers"]), scheduled["length"])
    assert sent["rounds"] <= sent["frames"]


def test_striped_files_follow_a_schedule_of_their_pairs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pairs, file = str(tmp_path / "pairs.json"), str(tmp_path / "s.json")
    assert main([*SFIO, "--write-pattern", pairs]) == 0
    capsys.readouterr()
    asked(capsys, "schedule", "swiss-t1", "--pattern", pairs, "--output", file)
    found = asked(capsys, *SFIO, "--schedule", file, "--results", str(tmp_path))
    assert found["verified"] and (found["schedule"], found["switching"]) == ("file", "circuit")


def test_a_schedule_that_cannot_be_carried_out_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file, other = tmp_path / "s.json", tmp_path / "other.json"
    asked(capsys, "schedule", "ring:4", "--output", str(file))
    asked(capsys, "schedule", "ring:4", "--pattern", "all-to-others", "--output", str(other))
    turned = json.loads(other.read_text())
    turned["frames"] = turned["frames"][1:]
    (tmp_path / "short.json").write_text(json.dumps(turned))
    bent = json.loads(other.read_text())
    bent["transfers"][0] = ["h0->s0", "s0->s3", "s3->s2", "s2->s1", "s1->h1"]
    bent["frames"] = [[i] for i in range(len(bent["transfers"]))]
    (tmp_path / "bent.json").write_text(json.dumps(bent))
    for words, says in (
        (["bulk", "ring:4", "--schedule", str(file)], "goes from h0 back to h0"),
        (["bulk", "ring:4", "--schedule", str(tmp_path / "short.json")], "transfer"),
        (
            ["bulk", "ring:4", "--schedule", str(tmp_path / "bent.json")],
            "transfer 0 goes over h0->s0, s0->s3",
        ),
        (["bulk", "swiss-t1", "--schedule", str(other)], "h0"),
        (
            ["bulk", "ring:4", "--schedule", str(tmp_path / "none.json")],
            "testbed schedule --output",
        ),
        (["bulk", "ring:4", "--schedule", str(other), "--scheduling", "liquid"], "--scheduling"),
        ([*SFIO, "--schedule", str(other)], "h0"),
    ):
        assert main([*words, "--results", str(tmp_path)]) == 2
        said = capsys.readouterr().err
        assert says in said and said.count("\n") == 1, said
