"""What nobody foresaw has an exit code of its own, one line, and a traceback in a file; streams that are closed or
narrow are no error."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.commands import unforeseen
from testbed.commands.parsing import reported
from testbed.errors import InputError
from tests.helpers.drawn import SOAK
from tests.helpers.paths import ROOT

BROKEN = """
import sys, threading
import testbed.commands.network.schema as command
from testbed import cli
def run(args):
    {body}
command.run = run
sys.argv = ["testbed", "schema"]
sys.exit(cli.main())
"""


class Panic(BaseException):
    """As libraries in Rust raise it: no Exception."""


def shell(line: str, tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-c", line],
        cwd=tmp_path,
        env=os.environ
        | {"PYTHONPATH": str(ROOT), "PY": sys.executable, "TMPDIR": str(tmp_path)}
        | variables,
        capture_output=True,
        check=False,
        timeout=120,
    )


def broken(body: str, tmp_path: Path, before: str = "", **variables: str) -> tuple[int, str, str]:
    (tmp_path / "broken.py").write_text(BROKEN.format(body=body))
    ran = shell(f"{before} $PY broken.py", tmp_path, **variables)
    return ran.returncode, ran.stdout.decode(), ran.stderr.decode()


@pytest.mark.parametrize(
    "error",
    [
        IndexError("index 0\nis out"),
        OSError(99, "odd"),
        RecursionError("deep"),
        ImportError("no name"),
        Panic("rust"),
        KeyError("x"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_one_line_and_a_code_of_its_own(
    error: BaseException,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("TESTBED_SANDBOX", raising=False)

    def fail() -> int:
        raise error

    assert reported(fail) == 70
    line = capsys.readouterr().err
    assert line.startswith("testbed: ") and line.count("\n") == 1 and type(error).__name__ in line
    file = Path(re.search(r"the traceback is in (\S+)$", line.strip())[1])  # type: ignore[index]
    assert file.parent == tmp_path and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "in fail" in file.read_text()


def test_without_a_place_for_a_file_the_line_has_the_last_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(**_: object) -> tuple[int, str]:
        raise OSError(28, "full")

    monkeypatch.setattr("tempfile.mkstemp", full)
    assert reported(lambda: 1 // 0) == 70
    line = capsys.readouterr().err
    assert "ZeroDivisionError: " in line and "by zero" in line and "TESTBED_TRACEBACK" in line
    monkeypatch.setenv(unforeseen.SHOW, "1")
    assert reported(lambda: 1 // 0) == 70
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_in_a_sandbox_the_file_outlives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESTBED_SANDBOX", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    line, _ = unforeseen.describe(ValueError("x"))
    file = Path(line.rpartition(" ")[2])
    assert file.parent == Path("/tmp")
    file.unlink()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(12, "Cannot allocate memory"),
        RuntimeError("can't start new thread"),
        ImportError("x.so: failed to map segment from shared object"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_too_little_memory_is_the_machines_lack(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> int:
        try:
            raise error
        except type(error) as cause:
            raise OSError("could not be loaded") from cause

    assert reported(fail) == 3
    line = capsys.readouterr().err
    assert "not enough memory" in line and "ulimit -v" in line and line.count("\n") == 1


def test_expected_errors_keep_their_exit_code() -> None:
    def fail(error: BaseException) -> int:
        raise error

    assert reported(lambda: fail(InputError("x"))) == 2
    assert reported(lambda: fail(KeyboardInterrupt())) == 130
    assert reported(lambda: 4) == 4


def test_an_exception_that_ends_a_thread_counts(tmp_path: Path) -> None:
    code, out, err = broken(
        "t = threading.Thread(target=lambda: 1 // 0); t.start(); t.join(); print('done'); return 0",
        tmp_path,
    )
    assert (code, out) == (70, "done\n")
    assert err.count("\n") == 1 and "ZeroDivisionError" in err


def test_an_exception_of_another_process_counts(tmp_path: Path) -> None:
    body = "from multiprocessing import get_context as of; of('fork').Pool(1).apply(divmod, (1, 0)); return 0"
    code, _, err = broken(body, tmp_path)
    assert code == 70 and "ZeroDivisionError" in err and err.count("\n") == 1, err


def test_the_command_itself(tmp_path: Path) -> None:
    code, out, err = broken("raise IndexError('odd')", tmp_path)
    assert (code, out) == (70, "") and err.count("\n") == 1
    assert len(list(tmp_path.glob("testbed-traceback-*.txt"))) == 1
    code, _, err = broken("raise IndexError('odd')", tmp_path, TESTBED_TRACEBACK="1")
    assert code == 70 and "Traceback" in err
    assert broken("raise IndexError('odd')", tmp_path, before="exec 2>&-;")[0] == 70


def test_little_memory(tmp_path: Path) -> None:
    ran = shell(
        "ulimit -v 300000; $PY -m testbed.cli simulate torus:64x64 --duration 1e-5", tmp_path
    )
    assert (
        ran.returncode == 3 and ran.stderr.count(b"\n") == 1 and b"not enough memory" in ran.stderr
    ), ran.stderr


WITH_FIGURES = "simulate ring:4 --duration 1e-5"
"""It takes ten times as long as the others: `make test` runs it where all is closed only."""
COMMANDS = {
    "topology list": 0,
    "route net.json --from Zürich --to 東京": 0,
    "route net.json --from Zürich --to 東京 --json": 0,
    "topology show net.json --json": 0,
    "route net.json --from Zürich --to nobody": 2,
    "nosuch": 2,
    "--help": 0,
    "route --help": 0,
    WITH_FIGURES: 0,
}
EACH = """
import itertools, os, runpy, sys
import testbed.cli, testbed.commands.routing.route, testbed.commands.network.topology, topologies.catalog

open_streams, *words = sys.argv[1:]
with open("codes", "w") as codes:
    for number, (_, part) in enumerate(itertools.groupby(words, ",".__eq__)):
        sys.argv[:] = ["testbed", *part]
        if sys.argv[1:] == [","]:
            continue
        if (child := os.fork()) == 0:
            for stream in map(int, open_streams):
                os.dup2(os.open(f"{number // 2}.{stream}", os.O_WRONLY | os.O_CREAT), stream)
            del sys.modules["testbed.cli"]
            runpy.run_module("testbed.cli", run_name="__main__")
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=codes, flush=True)
"""
"""Runs every command in a fork, which ends as an interpreter does; what it prints, where that is open, goes into files
of its number."""
CONDITIONS: dict[str, tuple[str, dict[str, str]]] = {
    "stdout closed": (">&-", {}),
    "stderr closed": ("2>&-", {}),
    "stdin closed": ("<&-", {}),
    "all closed": ("<&- >&- 2>&-", {}),
    "ascii": ("", {"PYTHONIOENCODING": "ascii"}),
    "ascii, strict": ("", {"PYTHONIOENCODING": "ascii:strict"}),
    "latin-1": ("", {"PYTHONIOENCODING": "latin-1"}),
    "C": ("", {"LC_ALL": "C"}),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("streams")
    nodes = [{"id": name, "kind": "switch"} for name in ("Zürich", "東京")]
    document = {
        "graph": {"name": "ü"},
        "nodes": nodes,
        "links": [{"source": "Zürich", "target": "東京"}],
    }
    (place / "net.json").write_text(json.dumps(document))
    return place


@pytest.mark.scaled
@pytest.mark.parametrize(
    "condition", [one for one in CONDITIONS if SOAK or one not in ("ascii", "C")]
)
def test_streams_that_are_closed_or_narrow(condition: str, place: Path, tmp_path: Path) -> None:
    closing, variables = CONDITIONS[condition]
    open_streams = [
        number for number, sign in (("1", " >&-"), ("2", " 2>&-")) if sign not in f" {closing}"
    ]
    commands = [c for c in COMMANDS if SOAK or c != WITH_FIGURES or condition == "all closed"]
    shutil.copy(place / "net.json", tmp_path)
    (tmp_path / "each.py").write_text(EACH)
    ran = shell(
        f"$PY each.py '{''.join(open_streams)}' {' , '.join(commands)} {closing}",
        tmp_path,
        **variables,
    )
    codes = (tmp_path / "codes").read_text().split()
    assert (ran.returncode, ran.stdout, ran.stderr, len(codes)) == (0, b"", b"", len(commands))
    for number, (command, code) in enumerate(zip(commands, codes, strict=True)):
        out, err = (
            (tmp_path / f"{number}.{one}").read_bytes() if one in open_streams else b""
            for one in "12"
        )
        assert int(code) == COMMANDS[command], (command, err)
        assert b"Traceback" not in err and err.count(b"\n") == (
            code == "2" and "2" in open_streams
        ), (command, err)
        assert out or code != "0" or "1" not in open_streams, command
        assert out.isascii() or not variables.get("PYTHONIOENCODING", "").startswith("ascii"), (
            command
        )


def test_a_closed_stream_is_no_file_of_the_commands(place: Path) -> None:
    """What is printed on a closed stdout must not go into whatever was opened next."""
    (place / "look.py").write_text(
        "import testbed.cli, os\n"
        "found = [os.readlink(f'/proc/self/fd/{number}') for number in (0, 1, 2)]\n"
        "open('told', 'w').write(str(found))\n"
    )
    assert shell("$PY look.py <&- >&- 2>&-", place).returncode == 0
    assert (place / "told").read_text().count("/dev/null") == 3


def test_a_program_that_is_missing_is_the_machines_lack(capsys: pytest.CaptureFixture[str]) -> None:
    def start() -> int:
        return subprocess.run(["no-such-program"], check=False).returncode

    assert reported(start) == 3
    assert "no program no-such-program is on PATH; install it" in capsys.readouterr().err
