"""Runs a command on a pseudo-terminal and measures how long nothing new appeared there."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class TerminalRun:
    """``silences_s``: times between two outputs, from the start to the last, as seen by the terminal; ``text``: all
    that it showed.

    What Python takes to end after the last word is not among them: the command has said all by then.
    """

    exit_code: int
    silences_s: tuple[float, ...]
    text: str

    @property
    def longest_silence_s(self) -> float:
        return max(self.silences_s)


def run_on_terminal(
    words: Sequence[str],
    cwd: Path,
    environ: Mapping[str, str] | None = None,
    limit_s: float = 300.0,
) -> TerminalRun:
    """Both standard output and standard error are the terminal; a command that is not done in time is killed."""
    ours, its = pty.openpty()
    began = last = time.monotonic()
    process = subprocess.Popen(
        words,
        stdin=its,
        stdout=its,
        stderr=its,
        cwd=cwd,
        env={**os.environ, **(environ or {}), "TERM": "xterm"},
    )
    os.close(its)
    shown, silences = b"", []
    while time.monotonic() - began < limit_s:
        if not select.select([ours], [], [], 0.2)[0]:
            continue
        try:
            piece = os.read(ours, 65536)
        except OSError:  # nobody has the other end open any more
            break
        now = time.monotonic()
        silences.append(now - last)
        shown, last = shown + piece, now
    else:
        process.kill()
        silences.append(time.monotonic() - last)
    code = process.wait(30)
    os.close(ours)
    return TerminalRun(
        exit_code=code, silences_s=tuple(silences), text=shown.decode(errors="replace")
    )
