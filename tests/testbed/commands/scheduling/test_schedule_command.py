"""The schedule command from outside: its JSON, its files, and one line for bad input."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.commands.scheduling.schedule import schedule_document
from testbed.model.json_values import LazyList, json_pieces
from testbed.model.traffic import Traffic
from testbed.scheduling.methods import schedule_by_name


def test_json_has_the_keys_that_others_rely_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", "swiss-t1:allocation=2-2-0-0-0-0-0-1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (
        document["liquid"] is True
        and document["proved"] == "liquid"
        and document["optimal"] is True
    )
    assert document["length"] == document["bottleneck_load"] == len(document["frames"])
    assert len(document["transfers"]) == 25 and document["transfers"][0] == ["t0->s1", "s1->r0"]
    assert document["seconds"] > 0


def test_a_document_of_many_transfers_is_never_held_whole() -> None:
    """Every link of 8,000 transfers is named, but none before its turn to be written."""
    links = [[f"t{i}", f"m{i % 7}", *(["x"] if i % 5 else [])] for i in range(8000)]
    traffic = Traffic.from_transfers(links)
    schedule = schedule_by_name(traffic, "liquid")
    document = schedule_document(traffic, schedule)
    assert (
        isinstance(document["transfers"], LazyList)
        and list(map(list, document["transfers"].made())) == links
    )
    pieces = list(json_pieces(document))
    assert (
        json.loads("".join(pieces))["transfers"] == links
        and max(map(len, pieces)) < sum(map(len, pieces)) / 2
    )
    whole = {**document, "transfers": links}
    assert "".join(pieces) == json.dumps(whole) and "".join(json_pieces({})) == json.dumps({})


def test_a_schedule_written_to_a_file_passes_its_own_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "schedule.json"
    assert main(["schedule", "clos:4", "--output", str(file)]) == 0
    assert "16 frames" in capsys.readouterr().out
    assert main(["schedule", "--verify", str(file)]) == 0
    document = json.loads(file.read_text())
    lost = document["frames"][0].pop()
    file.write_text(json.dumps(document))
    assert main(["schedule", "--verify", str(file)]) == 2
    assert f"transfer {lost} is in no frame" in capsys.readouterr().err


def test_pairs_of_a_pattern_file_are_scheduled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pairs.json"
    file.write_text(json.dumps([["h0_0", "h1_1"], ["h1_0", "h2_2"], ["h0_0", "h2_2"]]))
    assert (
        main(["schedule", "torus:3x3", "--pattern", str(file), "--scheduling", "exact", "--json"])
        == 0
    )
    assert json.loads(capsys.readouterr().out)["length"] == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["schedule"], "give either NETWORK or --traffic"),
        (["schedule", "swiss-t1", "--traffic", "x.json"], "give either NETWORK or --traffic"),
        (["schedule", "swis-t1"], "swis-t1"),
        (["schedule", "swiss-t1:allocation=5-0-0-0-0-0-0-0"], "5"),
        (["schedule", "swiss-t1:allocation=1-1"], "8"),
        (["schedule", "swiss-t1", "--solver-time-limit", "0"], "give seconds, more than 0"),
        (["schedule", "swiss-t1", "--scheduling", "best"], "invalid choice"),
        (["schedule", "swiss-t1", "--pattern", "missing.json"], "missing.json"),
        (["schedule", "--traffic", "missing.json"], "missing.json"),
    ],
)
def test_bad_arguments_are_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(words)
    except SystemExit as stopped:
        code = int(str(stopped.code))
    error = capsys.readouterr().err
    assert code == 2 and said in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "transfers"),
        ('{"transfers": []}', "without a transfer"),
        ('{"transfers": [["a"], []]}', "transfer 1 uses no link"),
        ('{"transfers": [["a", "a"]]}', "names a link twice"),
        ('{"transfers": [[1, "1"]]}', "names a link twice"),
        ('{"transfers": [["a"], "b"]}', "transfer 1 is not a list"),
        ('{"transfers": [[1.5]]}', "neither text nor"),
        ('{"transfers": [["a", "b"]], "links": ["a"]}', "'b', which the network does not have"),
        ('{"transfer": [["a"]], "transfers": [["a"]]}', "unknown key 'transfer'"),
    ],
)
def test_bad_traffic_files_are_one_line(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "traffic.json"
    file.write_text(text)
    assert main(["schedule", "--traffic", str(file)]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_frames_are_shown_with_their_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", "crossbar:13"]) == 0
    out = capsys.readouterr().out
    assert (
        len({word for word in out.split() if word.startswith("t") and ":" in word}) == 12 * 13
        and "and 1 more; add | cat to see all" in out
    )
    assert main(["schedule", "crossbar:13", "--csv"]) == 0
    frames = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["frame"] for row in frames] == [str(k) for k in range(1, 14)]
    assert len({pair for row in frames for pair in row["pairs"].split()}) == 13 * 13
