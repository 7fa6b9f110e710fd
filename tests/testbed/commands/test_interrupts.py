"""Ctrl-C ends every command in one line with exit code 130, at whatever moment, and nothing is left running; so does a
full disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.helpers.signals import heed_signals
from tests.helpers.warm import TESTBED, WarmProcess

SWISS = ("swiss-t1", "--from", "s1", "--to", "s6")
LONG = {
    "stream": (
        "stream",
        *SWISS,
        "--fabric",
        "simulator",
        "--faults",
        "none",
        "--duration",
        "20000",
    ),
    "simulate": ("simulate", "torus:8x8", "--repetitions", "5000", "--load", "0.5"),
    "campaign": ("campaign", "thousands"),
    "experiment": ("experiment", "run", "ror_layers", "--workers", "2"),
    "demands": ("demands", "topohub:sndlib/germany50", "--label-order", "stratified"),
}


def alive(group: int) -> list[str]:
    """The processes of a process group that are more than their name."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            name, rest = (entry / "stat").read_text().rsplit(")", 1)
        except OSError:
            continue
        state, _, its_group = rest.split()[:3]
        if int(its_group) == group and state != "Z":
            found.append(name)
    return found


def _said_when_interrupted(child: subprocess.Popen[str]) -> str:
    """What it says; who is not heard within 20 s presses Ctrl-C again."""
    for _ in range(3):
        os.killpg(child.pid, signal.SIGINT)
        try:
            return child.communicate(timeout=20)[1]
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError("three times Ctrl-C, and it goes on")


def interrupted(
    words: tuple[str, ...],
    folder: Path,
    after_s: float,
    start: type[subprocess.Popen[str]] = subprocess.Popen,
) -> tuple[int, str, list[str]]:
    """Exit code, stderr (but for what says that something is compiled) and what is left of a command whose process
    group gets SIGINT, as from a terminal."""
    child = start(
        [*TESTBED, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=None if start is WarmProcess else heed_signals,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
    )
    time.sleep(after_s)
    try:
        said = _said_when_interrupted(child)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
    until = time.monotonic() + 5
    while alive(child.pid) and time.monotonic() < until:
        time.sleep(0.1)
    lines = [
        line for line in said.splitlines(keepends=True) if not line.startswith("testbed: compil")
    ]
    return child.returncode, "".join(lines), alive(child.pid)


COLD = ("stream", "campaign")
"""Interrupted at their beginning in `make test`, the others in `make soak`: all begin in the same way."""


@pytest.mark.parametrize(
    "command", [pytest.param(one, marks=[] if one in COLD else [pytest.mark.soak]) for one in LONG]
)
def test_an_interrupt_at_the_beginning_is_one_line_and_leaves_nothing(
    command: str, tmp_path: Path
) -> None:
    assert interrupted(LONG[command], tmp_path, 1.0) == (130, "testbed: interrupted\n", [])


def test_an_interrupt_in_the_middle_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    def once(command: str) -> tuple[int, str, list[str]]:
        (tmp_path / command).mkdir()
        return interrupted(LONG[command], tmp_path / command, 2.0, WarmProcess)

    with ThreadPoolExecutor(
        len(LONG)
    ) as together:  # each in a process group and a folder of its own
        found = dict(zip(LONG, together.map(once, LONG), strict=True))
    assert found == dict.fromkeys(LONG, (130, "testbed: interrupted\n", []))


INTERRUPTED_WHILE = """
import os, signal, sys

class AtImport:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            os.kill(os.getpid(), signal.SIGINT)

moment, sys.argv = sys.argv[1], ["testbed", "--version"]
sys.meta_path.insert(0, AtImport())
for name in [name for name in sys.modules if name == moment]:
    del sys.modules[name]
from testbed.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    "moment",
    ["argparse", "importlib.metadata", "testbed.commands.arguments", "testbed.commands.parsing"],
)
def test_an_interrupt_while_the_command_itself_is_imported_is_one_line(moment: str) -> None:
    words = [sys.executable, "-c", INTERRUPTED_WHILE, moment]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        preexec_fn=heed_signals,
        cwd=Path(__file__).parents[3],
    )
    assert (done.returncode, done.stderr, done.stdout) == (130, "testbed: interrupted\n", "")


DROPPED = """
import os, signal, sys, time
import testbed.cli

class Finalized:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)

def command():
    Finalized()
    time.sleep(60)

testbed.cli.announce_compilation = command
sys.argv = ["testbed", "topology", "show", "swiss-t1"]
sys.exit(testbed.cli.main())
"""


def test_an_interrupt_that_python_drops_in_a_finalizer_comes_again() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DROPPED],
        capture_output=True,
        text=True,
        preexec_fn=heed_signals,
        cwd=Path(__file__).parents[3],
        timeout=50,
    )
    assert (done.returncode, done.stderr, done.stdout) == (130, "testbed: interrupted\n", "")


@pytest.mark.emulation
@pytest.mark.unclocked
def test_an_interrupted_stream_on_switches_says_so_in_one_line(tmp_path: Path) -> None:
    code, said, left = interrupted(
        ("stream", *SWISS, "--fabric", "emulation"), tmp_path, 3.0, WarmProcess
    )
    assert (code, left) == (130, []) and said.splitlines()[-1] == "testbed: interrupted"
    assert all(line.startswith("testbed: ") for line in said.splitlines())


@pytest.mark.parametrize(
    "words", [("route", *SWISS), ("topology", "show", "swiss-t1", "--json"), ("help", "stream")]
)
def test_a_reader_that_has_had_enough_is_no_failure(words: tuple[str, ...]) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    command = [sys.executable, "-m", "testbed.cli", *words]
    with os.fdopen(writes, "w") as nobody:
        done = subprocess.run(command, stdout=nobody, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "words",
    [
        ("route", *SWISS),
        ("route", *SWISS, "--json"),
        ("topology", "show", "swiss-t1", "--json"),
        ("schema", "network"),
        ("help", "up"),
        ("--help",),
    ],
)
def test_a_full_disk_is_one_line(words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "testbed.cli", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2
    assert (
        done.stderr
        == "testbed: the output cannot be written (No space left on device); give it another place\n"
    )
