"""What nobody foresaw has an exit code of its own, one line, and a traceback in a file; streams that are closed or
narrow are no error."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.commands import unforeseen
from testbed.commands.parsing import reported
from testbed.errors import InputError
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
        env=os.environ | {"PYTHONPATH": str(ROOT), "PY": sys.executable, "TMPDIR": str(tmp_path)} | variables,
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
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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
    assert "ZeroDivisionError: integer division or modulo by zero" in line and "TESTBED_TRACEBACK" in line
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
def test_too_little_memory_is_the_machines_lack(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> int:
        try:
            raise error
        except type(error) as cause:
            raise OSError("could not be loaded") from cause

    assert reported(fail) == 3
    line = capsys.readouterr().err
    assert "not enough memory" in line and "ulimit -v" in line and line.count("\n") == 1


def test_what_is_foreseen_keeps_its_code() -> None:
    def fail(error: BaseException) -> int:
        raise error

    assert reported(lambda: fail(InputError("x"))) == 2
    assert reported(lambda: fail(KeyboardInterrupt())) == 130
    assert reported(lambda: 4) == 4


def test_an_exception_that_ends_a_thread_counts(tmp_path: Path) -> None:
    code, out, err = broken(
        "t = threading.Thread(target=lambda: 1 // 0); t.start(); t.join(); print('done'); return 0", tmp_path
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
    ran = shell("ulimit -v 300000; $PY -m testbed.cli simulate torus:64x64 --duration 1e-5", tmp_path)
    assert ran.returncode == 3 and ran.stderr.count(b"\n") == 1 and b"not enough memory" in ran.stderr, ran.stderr


WITH_FIGURES = "simulate ring:4 --duration 1e-5"
"""It takes ten times as long as the others: `make test` runs it in the first condition of ``ALSO`` only."""
COMMANDS = {
    "topology list": 0,
    "route net.json --from Zürich --to 東京": 0,
    "route net.json --from Zürich --to 東京 --json": 0,
    "topology show net.json --json": 0,
    "route net.json --from Zürich --to nobody": 2,
    WITH_FIGURES: 0,
    "nosuch": 2,
    "--help": 0,
    "route --help": 0,
}
ALIKE = ("topology list", "topology show net.json --json", WITH_FIGURES, "--help")
"""Commands that print in the way of others, a text, a document or a page of help."""
ALSO = ("all closed", "ascii, strict", "C")
"""Conditions in which `make test` runs those; `make soak` runs them in all."""
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
    document = {"graph": {"name": "ü"}, "nodes": nodes, "links": [{"source": "Zürich", "target": "東京"}]}
    (place / "net.json").write_text(json.dumps(document))
    return place


@pytest.mark.parametrize(
    ("command", "condition"),
    [
        pytest.param(
            command,
            condition,
            marks=[pytest.mark.soak]
            if command in ALIKE and condition not in ALSO[: 1 if command == WITH_FIGURES else None]
            else [],
        )
        for command in COMMANDS
        for condition in CONDITIONS
    ],
)
def test_streams_that_are_closed_or_narrow(command: str, condition: str, place: Path) -> None:
    closing, variables = CONDITIONS[condition]
    ran = shell(f"$PY -m testbed.cli {command} {closing}", place, **variables)
    assert ran.returncode == COMMANDS[command], ran.stderr
    assert b"Traceback" not in ran.stderr and ran.stderr.count(b"\n") == (ran.returncode == 2 and "2>&-" not in closing)
    if ">&-" not in closing.replace("2>&-", "") and ran.returncode == 0:
        assert ran.stdout
    if variables.get("PYTHONIOENCODING", "").startswith("ascii"):
        assert ran.stdout.isascii()


def test_a_closed_stream_is_no_file_of_the_commands(place: Path) -> None:
    """What is printed on a closed stdout must not go into whatever was opened next."""
    (place / "look.py").write_text(
        "import testbed.cli, os\n"
        "found = [os.readlink(f'/proc/self/fd/{number}') for number in (0, 1, 2)]\n"
        "open('told', 'w').write(str(found))\n"
    )
    assert shell("$PY look.py <&- >&- 2>&-", place).returncode == 0
    assert (place / "told").read_text().count("/dev/null") == 3
