"""Downloads over many paths: time and redundancy as predicted, in virtual time; bad input is one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.cli import main

COMMAND = [
    "download",
    "swiss-t1",
    "--from",
    "s1",
    "--to",
    "s6",
    "--fabric",
    "simulator",
    "--file-size",
    "2e6",
    "--json",
]


def downloaded(capsys: pytest.CaptureFixture[str], *more: str, code: int = 0) -> dict[str, object]:
    assert main([*COMMAND, *more]) == code
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.parametrize("code", ["raptorq", "reed-solomon"])
def test_many_paths_keep_the_last_kilometre_full_while_a_link_is_down(
    code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    many = downloaded(capsys, "--code", code)
    one = downloaded(capsys, "--code", code, "--routing", "single")
    assert many["verified"] and one["verified"]
    assert many["outage_s"] == 0 and one["outage_s"] > 0.8  # type: ignore[operator]
    assert many["duration_s"]["measured"] < 0.8 * one["duration_s"]["measured"]  # type: ignore[index]


def test_a_rate_that_is_never_raised_fails(capsys: pytest.CaptureFixture[str]) -> None:
    document = downloaded(capsys, "--constant-rate", code=1)
    assert document["constant_rate"] and document["verified"]
    assert document["verdict"]["failed"] == ["seconds until the file was there"]  # type: ignore[index]


@pytest.mark.parametrize("words", ["none.json", "none", "[]"])
def test_without_a_fault_little_more_is_sent_than_the_file(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "none.json").write_text("[]")
    monkeypatch.chdir(tmp_path)
    document = downloaded(capsys, "--faults", words)
    assert document["faults"] == []
    packets = document["packets"]
    assert packets["sent"]["measured"] < 1.05 * packets["needed"]  # type: ignore[index]
    assert document["goodput_ratio"] > 0.85  # type: ignore[operator]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--file-size", "0"], "give bytes, 1 to"),
        (["--file-size", "1e12"], "give bytes, 1 to 268435456"),
        (["--last-mile-rate", "0"], "give bits a second, more than 0"),
        (["--routing", "nothing"], "'nothing'"),
        (["--to", "t0"], "is a host"),
        (["--to", "s99"], "s99"),
        (["--to", "s1"], "s1"),
        (["--code", "reed-solomon", "--block-symbols", "300"], "at most 254"),
        (["--block-symbols", "1"], "larger blocks"),
        (["--faults", "missing.json"], "missing.json"),
    ],
)
def test_bad_input_is_one_line(
    more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at = COMMAND.index(more[0]) if more[0] in COMMAND else len(COMMAND)  # nothing is given twice
    try:
        code = main([*COMMAND[:at], *COMMAND[at + 2 :], *more])
    except SystemExit as stopped:
        code = int(str(stopped.code))
    assert code == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
