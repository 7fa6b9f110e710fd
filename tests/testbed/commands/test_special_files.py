"""A pipe that nobody is at, a socket or a device in place of a file: one line, exit code 2, no waiting."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.commands.parsing import reported
from tests.helpers.warm import TESTBED, run
from topologies.text import text_file

READ = {
    "network": ["topology", "show", "FILE"],
    "faults": ["stream", "swiss-t1", "--from", "s1", "--to", "s6", "--faults", "FILE"],
    "pattern": ["bulk", "crossbar:2", "--pattern", "FILE"],
    "place": ["up", "crossbar:2", "--machines", "2", "--machine-placement", "FILE"],
    "campaign": ["campaign", "FILE"],
    "traffic": ["schedule", "--traffic", "FILE"],
    "authority": [
        "campaign",
        "thousands",
        "--dask",
        "tls://head:1",
        *(w for n in ("ca", "cert", "key") for w in (f"--tls-{n}", "FILE")),
    ],
}
WRITTEN = {
    "network": ["topology", "export", "ring:3", "FILE"],
    "frames": ["schedule", "crossbar:2", "--plot", "FILE"],
    "schedule": ["schedule", "crossbar:2", "--output", "FILE"],
    "book": ["replicate", "--report-only", "--results", "FILE"],
    "pattern": [
        "sfio",
        "crossbar:2",
        "--compute-nodes",
        "1",
        "--io-nodes",
        "1",
        "--write-pattern",
        "FILE",
    ],
}


@pytest.fixture(params=["pipe", "socket", "device"])
def special(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    monkeypatch.setattr(text_file, "WRITER_MS", 50)
    place = tmp_path / "it.json"
    if request.param == "pipe":
        os.mkfifo(place)
    elif request.param == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(place))
    else:
        place.symlink_to("/dev/full")
    return place


@pytest.mark.parametrize("words", READ.values(), ids=READ)
def test_read(words: list[str], special: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(words, special, capsys)


@pytest.mark.parametrize("words", WRITTEN.values(), ids=WRITTEN)
def test_written(words: list[str], special: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if "--plot" in words:
        special = special.rename(special.with_suffix(".svg"))
    assert refused(words, special, capsys)


@pytest.mark.emulation
@pytest.mark.unclocked
@pytest.mark.parametrize(
    "words",
    [
        ["up", "crossbar:2", "--pcap", "t0->s1=FILE"],
        ["bulk", "crossbar:2", "--save-messages", "FILE"],
    ],
    ids=["pcap", "store"],
)
def test_written_by_a_run_on_switches(words: list[str], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    named = [word.replace("FILE", "pipe") for word in words]
    done = run(
        [*TESTBED, *named],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1 and b"pipe: " in done.stderr


def refused(words: list[str], special: Path, capsys: pytest.CaptureFixture[str]) -> bool:
    code = main([str(special) if word == "FILE" else word for word in words])
    told = capsys.readouterr().err
    return code == 2 and told.count("\n") == 1 and special.name in told


@pytest.mark.parametrize(
    "words",
    [["compare", "NAME", "x"], ["report", "NAME"], ["simulate", "ring:3", "--traffic", "NAME.et"]],
)
def test_a_name_that_no_file_can_have(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word.replace("NAME", "x" * 5000) for word in words]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "File name too long" in told and len(told) < 200


@pytest.mark.parametrize(("path", "code"), [("shut/run", 2), ("/proc/1/mem", 70)])
def test_a_folder_that_is_shut_and_one_of_the_machine(
    path: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def look() -> int:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    assert reported(look) == code
    assert f"{path}: cannot be opened (Permission denied)" in capsys.readouterr().err or code == 70
