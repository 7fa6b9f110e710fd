"""Runs commands in which a broken pipe is raised at some call, and tells how each ended.

    broken_calls.py SEED COUNT FOLDER      commands (JSON) on stdin, a list of lists

It prints, as JSON, what a command did that must not be: it ended with exit code 0, but its output
is not that of a command in which nothing breaks.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import sys
from types import FrameType

from testbed.cli import main

PRODUCT = ("/testbed/", "/topologies/", "/fec/", "/sfio_emu/")


class _Breaking:
    """Counts calls of the product's functions, and breaks one of them."""

    def __init__(self, at: int | None) -> None:
        self.calls = 0
        self._at = at

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not any(part in frame.f_code.co_filename for part in PRODUCT):
            return
        self.calls += 1
        if self.calls == self._at:
            raise BrokenPipeError(32, "Broken pipe")


def _run(words: list[str], at: int | None) -> tuple[int, str, int]:
    """Return the exit code, the output and the number of calls, from a child of fork."""
    ours, theirs = os.pipe()
    if os.fork() == 0:
        breaking = _Breaking(at)
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            sys.setprofile(breaking.profile)
            try:
                code = main(words)
            except BaseException:  # noqa: BLE001 - it reached Python itself, which ends with 1
                code = 1
            sys.setprofile(None)
        with os.fdopen(theirs, "w") as report:
            json.dump([code, out.getvalue(), breaking.calls], report)
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as report:
        code, output, calls = json.load(report)
    os.wait()
    return code, output, calls


def _violations(words: list[str], chance: random.Random, count: int) -> list[object]:
    usual_code, usual, calls = _run(words, None)
    violations: list[object] = []
    for _ in range(count):
        at = chance.randrange(1, calls)
        code, output, _ = _run(words, at)
        if code == 0 and (usual_code != 0 or output != usual):
            violations.append([words, at, output[-200:]])
    return violations


if __name__ == "__main__":
    seed, count, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    commands = json.load(sys.stdin)
    os.chdir(folder)
    chance = random.Random(seed)
    print(json.dumps([one for words in commands for one in _violations(words, chance, count)]))
