"""The first use of anything is quick, or says what takes its time."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.cli import COMMANDS, build_parser
from tests.helpers.paths import ROOT

HEAVY = (
    "numpy", "scipy", "numba", "networkx", "rich", "matplotlib", "ortools", "importlib.resources", "topologies", "fec",
    "sfio_emu",
    "experiments", "testbed.api.calculations", "testbed.stream", "testbed.emulation", "testbed.machines",
)  # fmt: skip
"""Nothing of these may be imported to say which commands there are."""

COMPILING = """
import testbed.api.compile_notice as notice
from testbed.jit import compiled_entry

notice.announce_compilation()

def slow_to_compile(n):
    total = 0.0
    for i in range(n):
        total += (i ** 0.5) % 3.7
    return total

def another(n):
    return 2 * n

step = compiled_entry(slow_to_compile)
print(step(10) > 0, compiled_entry(another)(1))
"""


def test_help_names_every_command_as_the_command_itself_does() -> None:
    (subparsers,) = (
        a for a in build_parser(None)._actions if isinstance(a, argparse._SubParsersAction)
    )
    assert {choice.dest: choice.help for choice in subparsers._choices_actions} == {
        name: command.summary for name, command in COMMANDS.items()
    }


def test_help_imports_no_command_and_nothing_large() -> None:
    script = "import sys, testbed.cli; testbed.cli.main(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert all(name in done.stdout for name in COMMANDS)
    loaded = set(done.stderr.split())
    assert not {name for name in HEAVY if name in loaded}
    assert (
        not {f"testbed.commands.{command.folder}.{name}" for name, command in COMMANDS.items()}
        & loaded
    )


@pytest.mark.parametrize(
    ("wrong", "says"), [("rote", "did you mean route?"), ("xyz", "choose from demo, route")]
)
def test_wrong_command_is_named_with_the_nearest_or_those_there_are(wrong: str, says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "testbed.cli", wrong],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 2 and says in done.stderr and len(done.stderr.splitlines()) == 1


def test_compilation_says_what(tmp_path: Path) -> None:
    script = tmp_path / "compiling.py"
    script.write_text(COMPILING)
    environment = {
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(ROOT),
        "PATH": "/usr/bin:/bin",
    }

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        )

    first, second = run(), run()
    assert first.stdout == second.stdout == "True 2\n"
    assert first.stderr == "testbed: compiling code for this machine, this once; 5 to 60 s ...\n"
    assert second.stderr == ""  # read from the cache
