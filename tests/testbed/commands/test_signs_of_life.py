"""No command is silent for more than two seconds on a terminal, and in a pipe none says a word more for it."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from testbed import cli
from testbed.commands import heartbeat
from tests.helpers.paths import ROOT
from tests.helpers.terminal import run_on_terminal

MAX_SILENCE_S = 2.0
LONG = (
    "ror swiss-t1 --from s1 --to s6",
    "demands torus:2x2",
    "schedule swiss-t1:allocation=4-4-4-4-0-0-0-0",
    "stream swiss-t1 --from s1 --to s6 --max-faults 2 --fabric simulator",
    "mobility manet:nodes=40 --from n0 --to n5 --frames 3 --fabric simulator",
    "download swiss-t1 --from s1 --to s6 --fabric simulator",
    "bulk swiss-t1:allocation=2-2-2-2-0-0-0-0 --fabric simulator",
    "demo --quick --fabric simulator",
    "campaign quick",
    "wavelengths optical-cloud:graph=ring:6,wavelengths=4 --fabric simulator",
    "simulate torus:4x4 --load 0.3",
    "sfio crossbar:8 --compute-nodes 4 --io-nodes 4 --fabric simulator",
    "plugins check liquid",
    "experiment run liquid_patterns --quick",
    "replicate --quick --only liquid_patterns --max-hours 1",
    "doctor",
)
SHORT_LIST = ("experiment run liquid_patterns --quick",)
"""What `make test` runs; `make soak` runs all of them."""
SILENT = ("up", "exec", "attach", "run")
"""Commands that give the terminal to others."""
SLEEPING = """
import sys, time
from testbed.commands.heartbeat import heartbeat
with heartbeat(sys.argv[1]):
    time.sleep(1.2)
    print("done")
"""


class Terminal(io.StringIO):
    """What is written to it, as a terminal takes it."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_long_command_shows_progress_unless_it_gives_the_terminal_away(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(heartbeat, "PATIENCE_S", 0.01)

    def work(chosen: str | None) -> NoReturn:
        until = time.monotonic() + (0.1 if command in SILENT else 10.0)
        while "at work" not in terminal.getvalue() and time.monotonic() < until:
            time.sleep(0.005)
        raise SystemExit(0)

    monkeypatch.setattr(cli, "_parser_of", work)
    assert cli.main([command]) == 0
    assert (f"testbed {command}: at work for " in terminal.getvalue()) == (command not in SILENT)


@pytest.mark.parametrize(
    "words",
    [pytest.param(one, marks=[] if one in SHORT_LIST else [pytest.mark.soak]) for one in LONG],
)
def test_no_command_is_silent_for_more_than_two_seconds(
    words: str, tmp_path: Path, timely: Callable[[Callable[[], str | None]], None]
) -> None:
    def once() -> str | None:
        command = [sys.executable, "-m", "testbed.cli", *words.split()]
        run = run_on_terminal(command, tmp_path, {"PYTHONPATH": str(ROOT)})
        assert run.exit_code == 0, run.text[-2000:]
        longest = run.longest_silence_s
        return None if longest <= MAX_SILENCE_S else f"silent for {longest:.1f} s"

    timely(once)


@pytest.mark.emulation
def test_no_command_on_real_switches_is_silent_for_more_than_two_seconds(
    tmp_path: Path, timely: Callable[[Callable[[], str | None]], None]
) -> None:
    def once() -> str | None:
        words = "stream ring:4 --from s0 --to s2 --max-faults 1 --fabric emulation"
        command = [sys.executable, "-m", "testbed.cli", *words.split()]
        run = run_on_terminal(command, tmp_path, {"PYTHONPATH": str(ROOT)})
        assert run.exit_code in (0, 4), run.text[-2000:]  # 4: the machine could not keep up
        longest = run.longest_silence_s
        return None if longest <= MAX_SILENCE_S else f"silent for {longest:.1f} s"

    timely(once)


def test_waiting_command_shows_a_line_that_goes_before_its_output(tmp_path: Path) -> None:
    run = run_on_terminal(
        [sys.executable, "-c", SLEEPING, "route"], tmp_path, {"PYTHONPATH": str(ROOT)}
    )
    before, _, after = run.text.partition("testbed route: at work for ")
    assert "done" not in before and after.rstrip().endswith("\r\x1b[2Kdone")


def test_command_that_gives_its_terminal_away_and_one_in_a_pipe_show_none(tmp_path: Path) -> None:
    given = run_on_terminal(
        [sys.executable, "-c", SLEEPING, "exec"], tmp_path, {"PYTHONPATH": str(ROOT)}
    )
    assert (
        given.text == "done\r\n" and given.longest_silence_s > 1
    )  # the rival: what silence looks like
    piped = subprocess.run(
        [sys.executable, "-c", SLEEPING, "route"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        timeout=60,
    )
    assert (piped.stdout, piped.stderr) == ("done\n", "")
