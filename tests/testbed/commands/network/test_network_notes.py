"""What is not read of other programs' files is one line on stderr, once a command; the answer on stdout is not
touched."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from testbed.cli import main
from topologies import load_network


@pytest.fixture
def foreign(tmp_path: Path) -> str:
    nodes = [{"id": "a"}, {"id": "b"}]
    path = tmp_path / "n.json"
    path.write_text(
        json.dumps({"nodes": nodes, "links": [{"source": "a", "target": "b", "weight\x1b[2J": 3}]})
    )
    return str(path)


@pytest.mark.parametrize(
    "command",
    [
        "topology show NET --json",
        "route NET --from a --to b --json",
        "ror NET --from a --to b --json",
    ],
)
def test_a_note_is_one_line(command: str, foreign: str, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert main(command.replace("NET", foreign).split()) == 0
        out, err = capsys.readouterr()
        assert err == f"testbed: note: {foreign}: kept, but not read: 'weight\\x1b[2J' (links)\n"
        json.loads(out)


def test_a_command_that_reads_a_file_twice_tells_it_once(
    foreign: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"stream {foreign} --from a --to b --fabric simulator --faults none --duration 1 --packet-rate 200 --json"
    main(words.split())
    assert capsys.readouterr().err.count("note:") == 1


def test_in_python_a_note_is_a_warning(foreign: str) -> None:
    with pytest.warns(UserWarning, match="kept, but not read"):
        load_network(foreign)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_network("ring:4")


def test_a_note_is_a_line_where_warnings_are_errors(
    foreign: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main(["topology", "show", foreign]) == 0
    assert (
        capsys.readouterr().err
        == f"testbed: note: {foreign}: kept, but not read: 'weight\\x1b[2J' (links)\n"
    )
