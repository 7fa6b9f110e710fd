"""``testbed schedule`` with unequal messages, a wormhole run and a drawing, from outside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main

RING = {"transfers": [[f"t{i}", f"c{i}", f"c{(i + 1) % 4}", f"r{(i + 2) % 4}"] for i in range(4)]}


def written(path: Path, document: Any) -> str:
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["schedule", *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_schedule_is_carried_with_and_without_barriers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = answer(capsys, "swiss-t1:allocation=2-2-0-0-0-0-0-2", "--wormhole")
    wormhole = run["wormhole"]
    assert wormhole["with_barriers"]["frames"] == run["length"] == run["bottleneck_load"]
    assert wormhole["without_barriers"]["frames"] >= run["bottleneck_load"]
    assert wormhole["with_barriers"]["carried"] == len(run["transfers"])


def test_a_deadlock_is_reported_and_remedied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = [[f"h{i}", f"h{(i + 2) % 5}"] for i in range(5)] + [
        [f"h{i}", f"h{(i + 1) % 5}"] for i in range(5)
    ]
    file = written(tmp_path / "pairs.json", pairs)
    words = ("ring:5", "--pattern", file, "--scheduling", "identical", "--wormhole")
    stuck = answer(capsys, *words)["wormhole"]["without_barriers"]
    assert len(stuck["deadlock"]) == 5 and stuck["carried"] < 10
    links = {entry["waits_for"] for entry in stuck["deadlock"]}
    assert len(links) == 5 and all("->s" in link for link in links)
    for remedy in ("timeout", "virtual-channels"):
        freed = answer(capsys, *words, "--on-deadlock", remedy)["wormhole"]["without_barriers"]
        assert (freed["deadlock"], freed["carried"]) == ([], 10)
    assert main(["schedule", *words]) == 0
    assert "DEADLOCK of 5 transfers" in capsys.readouterr().out


def test_unequal_messages_become_chunks_with_a_bound_on_the_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    traffic = written(tmp_path / "traffic.json", {"transfers": [["a", "trunk"], ["b", "trunk"]]})
    unequal = {
        "sizes_bytes": [1000, 250],
        "chunk_bytes": 100,
        "capacities_bps": {"a": 1e6, "b": 1e6, "trunk": 2e6},
    }
    run = answer(
        capsys, "--traffic", traffic, "--message-sizes", written(tmp_path / "unequal.json", unequal)
    )
    assert run["liquid"] and run["length"] == 10 and len(run["transfers"]) == 13
    assert run["transfers"][0][1] == "trunk/0"
    chunks = run["chunks"]
    assert chunks["message"].count(1) == 3
    assert 0 <= chunks["loss"] <= chunks["loss_bound"] < 1
    assert chunks["liquid_s"] == pytest.approx(10 * 100 * 8 / 1e6)


def test_frames_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, "ring:3", "--plot", str(tmp_path / "frames.svg"))
    assert "<svg" in (tmp_path / "frames.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "words",
    [
        ["ring:3", "--plot", "frames.txt"],
        ["ring:3", "--plot", "/nowhere/frames.svg"],
        ["ring:3", "--on-deadlock", "timeout"],
        ["ring:3", "--message-sizes", "/nowhere.json"],
    ],
)
def test_bad_options_are_refused_in_one_line(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schedule", *words]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "document",
    [
        [],
        {"size": 3},
        {"sizes_bytes": "x"},
        {"sizes_bytes": [1, 2]},
        {"sizes_bytes": 5, "chunk_bytes": "x"},
        {"sizes_bytes": 5, "capacities_bps": {"h0->s0": -1}},
        {"sizes_bytes": 5, "channel_bps": 1e30},
        {"sizes_bytes": 0},
    ],
)
def test_bad_unequal_files_are_refused_in_one_line(
    document: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["schedule", "ring:3", "--message-sizes", written(tmp_path / "u.json", document)]) == 2
    )
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
