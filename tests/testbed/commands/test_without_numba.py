"""Without numba, and without compiled routines, every algorithm runs in Python, and one line says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.helpers.commands import in_process
from tests.helpers.paths import ROOT

COMMANDS = (
    "route torus:5x5 --from s0_0 --to s2_2 --json",
    "ror ring:4 --from s0 --to s2 --json",
    "schedule torus:3x3 --json",
    "simulate torus:3x3 --duration 2us --warm-up 0 --deadlock-avoidance nac --json",
    "simulate ring:4 --duration 2us --warm-up 0 --routing ft-drb --deadlock-avoidance nac --json",
)
WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
from testbed.cli import main
import numpy as np
print(*[main(command.split()) for command in sys.argv[1:]])
from sfio_emu.layout.kernels import gather_list
stream = np.zeros(3, dtype=np.uint8)
gather_list(np.arange(9, dtype=np.uint8), np.array([1, 7]), np.array([0, 1, 3]), stream)
assert stream.tolist() == [1, 7, 8]
"""


def test_commands_answer_the_same_without_numba(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMBA, *COMMANDS],
        cwd=tmp_path,
        env={**os.environ, "TESTBED_KERNELS": "numba", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    *answers, codes = done.stdout.splitlines()
    assert done.stderr.count("numba is not installed: algorithms run in Python") == 1
    assert "Warning" not in done.stderr
    usual = [in_process(*command.split(), cwd=tmp_path) for command in COMMANDS]
    assert codes.split() == [str(run.returncode) for run in usual]
    for command, answer, run in zip(COMMANDS, answers, usual, strict=True):
        found, expected = json.loads(answer), json.loads(run.stdout)
        for name in ("seconds", "results"):
            found.pop(name, None)
            expected.pop(name, None)
        assert found == expected, command
