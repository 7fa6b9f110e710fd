"""How many places know an option and a workload: each is added to a copy of the package, and works there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT

OPTION = """    patience: float = running(
        default=2.0, kind=kinds.Kind("a number", 1, 100), help="times the predicted duration, then it ends"
    )
"""
WORKLOAD = '''"""Echoes, counted."""

from dataclasses import dataclass

from testbed.model.options import kinds
from testbed.model.options.option import option, options
from testbed.model.options.planner import planner
from testbed.model.verdict import Claim, Verdict
from testbed.model.workload import Judgement, Workload


@options
class EchoOptions:
    echoes: int = option(kw_only=False, positional=True, kind=kinds.some, metavar="N", help="how many")


@dataclass(frozen=True, kw_only=True)
class EchoPlan:
    echoes: int


def _build(requested: EchoOptions) -> EchoPlan:
    return EchoPlan(echoes=requested.echoes)


def _judge(plan: EchoPlan, heard: int) -> Judgement:
    verdict = Verdict(checks=(Claim("echoes").equal(plan.echoes, heard),))
    rows = ({"heard": heard},)
    return Judgement(verdict=verdict, document={"heard": heard, "verdict": verdict.to_json()}, rows=rows, stored=rows)


echo_plan = planner("echo_plan", "Echoes.", EchoOptions, _build)
ECHO = Workload(
    name="echo",
    title="Echoes",
    description="Echoes, counted.",
    command="testbed echo 3",
    plan=EchoPlan,
    options=EchoOptions,
    build=_build,
    simulate=lambda plan, _: plan.echoes,
    judge=_judge,
    example=lambda: echo_plan(3),
)
'''
USES_OPTION = """
import testbed
from testbed.cli import main

flow = ("ring:4", "s0", "s2")
short, long = (testbed.download_plan(*flow, patience=patience).limit_s for patience in (2.0, 4.0))
assert short < long, "the library takes it"
words = ["download", "ring:4", "--from", "s0", "--to", "s2", "--fabric", "simulator", "--patience"]
assert main([*words, "0.5"]) == 2 and main([*words, "3"]) == 0, "the command takes it, within its bounds"
main(["download", "--help"])
"""
USES_WORKLOAD = """
import testbed
from testbed.cli import main
from testbed.conformance.suites import workload_checks
from testbed.echoes.workload import ECHO

assert testbed.run(testbed.echo_plan(3), "simulator").passed
assert all(check.passed for check in workload_checks(ECHO))
assert main(["echo", "3", "--json"]) == 0 and main(["echo", "many"]) == 2 and main(["echo", "--help"]) == 0
main(["--help"])
"""


@pytest.fixture
def product(tmp_path: Path) -> Path:
    """A copy of the package, with what it is compiled to, for a program that imports it instead of this one."""
    return Path(shutil.copytree(ROOT / "testbed", tmp_path / "testbed"))


def printed(product: Path, script: str) -> str:
    """What the script prints, with the copy."""
    found = {**os.environ, "PYTHONPATH": str(product.parent)}
    words = [
        sys.executable,
        "-c",
        f"import testbed; assert testbed.__file__.startswith({str(product)!r})\n{script}",
    ]
    done = subprocess.run(
        words, capture_output=True, text=True, cwd=product.parent, env=found, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def places(product: Path, change: Callable[[], None]) -> set[str]:
    """Modules and, of new ones, folders of the package that the change touches."""

    def contents() -> dict[Path, str]:
        return {path: path.read_text() for path in product.rglob("*.py")}

    before = contents()
    change()
    changed = {
        path.relative_to(product) for path, text in contents().items() if before.get(path) != text
    }
    old = {path.relative_to(product).parent for path in before}
    return {str(path if path.parent in old else path.parent) for path in changed}


def put(path: Path, before: str, text: str) -> None:
    """Write the text before the first place where that stands."""
    found = path.read_text()
    assert before in found
    path.write_text(found.replace(before, text + before, 1))


def test_an_option_has_two_places(product: Path) -> None:
    home = product / "download"

    def add() -> None:
        put(home / "options.py", "    seed: int = ", OPTION)
        planning = home / "planning.py"
        planning.write_text(
            re.sub(
                r"limit_s=2 \* seconds",
                "limit_s=requested.patience * seconds",
                planning.read_text(),
            )
        )

    assert places(product, add) == {"download/options.py", "download/planning.py"}
    assert "--patience PATIENCE" in printed(product, USES_OPTION)


def test_a_workload_has_three_places(product: Path) -> None:
    """Its floor in ``pyproject.toml``, which lint-imports asks for, is none of the product's; its page comes to
    them."""

    def add() -> None:
        (product / "echoes").mkdir()
        (product / "echoes/__init__.py").touch()
        (product / "echoes/workload.py").write_text(WORKLOAD)
        line = '    "echo": Listed(SEND, "echoes, counted", "testbed.echoes.workload:ECHO"),\n'
        put(product / "api/workloads/__init__.py", '    "stream": Listed(', line)
        put(product / "__init__.py", '    "run": "', '    "echo_plan": "echoes.workload",\n')

    assert places(product, add) == {"echoes", "api/workloads/__init__.py", "__init__.py"}
    assert "  echo                  echoes, counted\n" in printed(product, USES_WORKLOAD)


def test_the_name_of_a_workload_stands_nowhere_else() -> None:
    """Of an old one, by its name in the whole product; the suite for plug-ins knows its codes as well."""
    listed = subprocess.run(
        ["git", "grep", "-lw", "download", "--", "testbed/*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = {name for name in listed.stdout.split() if not name.startswith("testbed/download/")}
    assert found <= {
        "testbed/__init__.py",
        "testbed/api/workloads/__init__.py",
        "testbed/conformance/suites.py",
    }
