"""The public names of the library: listed, documented, each called once, quick to import."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

import testbed
from testbed.commands.command_list import COMMANDS
from testbed.extras import DISTRIBUTION
from tests.helpers.paths import ROOT

FUNCTIONS = [name for name in testbed.__all__ if inspect.isfunction(getattr(testbed, name))]
RING = ("ring:4", "s0", "s2")


def simulated(plan: object) -> testbed.RunResult:
    result = testbed.run(plan, "simulator")
    assert result.verdict.invalid is None
    return result


def some_plan() -> object:
    return testbed.simulation_plan("ring:4", duration_s=0.001)


def stored(folder: Path) -> Path:
    return testbed.run(some_plan(), "simulator", results=folder / "results").page.parent


CALLS: dict[str, Callable[[Path], object]] = {
    "block_size": lambda _: testbed.block_size(20, 0.1),
    "bulk_plan": lambda _: simulated(testbed.bulk_plan("crossbar:2", message_bytes=10_000)),
    "campaign_plan": lambda _: simulated(
        testbed.campaign_plan(name="x", networks=["ring:4"], methods=["ecmp"], pairs=[["s0", "s2"]])
    ),
    "compare": lambda folder: testbed.compare([stored(folder), stored(folder)]),
    "data_frame": lambda folder: testbed.data_frame(stored(folder)),
    "demands": lambda _: testbed.demands("ring:4", "uniform", "ecmp", labels="random"),
    "download_plan": lambda _: simulated(
        testbed.download_plan("swiss-t1", "s1", "s6", file_bytes=100_000)
    ),
    "draw": lambda _: testbed.draw("ring:4", faults=["s0->s1"]),
    "load": lambda folder: testbed.load(stored(folder)),
    "metapath_plan": lambda _: testbed.metapath_plan(*RING),
    "mobility_plan": lambda _: simulated(
        testbed.mobility_plan("manet:nodes=20", "n0", "n5", count=2, frame_s=1.0)
    ),
    "network": lambda _: testbed.network("ring:4"),
    "networks": lambda _: testbed.networks(),
    "ror": lambda _: testbed.ror(*RING, routing="capillary"),
    "route": lambda _: testbed.route(*RING),
    "run": lambda _: simulated(some_plan()),
    "runs": lambda folder: testbed.runs(stored(folder).parent),
    "schedule": lambda _: testbed.schedule("crossbar:2"),
    "simulation_plan": lambda _: simulated(some_plan()),
    "stream_plan": lambda _: simulated(
        testbed.stream_plan(*RING, faults=["s0->s1@2-3"], duration_s=4, rate_pps=200)
    ),
    "striping_plan": lambda _: simulated(
        testbed.striping_plan("crossbar:4", 2, 2, file_bytes=80_000)
    ),
    "traffic": lambda _: testbed.traffic("crossbar:2"),
    "tunnel_plan": lambda _: testbed.tunnel_plan("ring:4", ("s0", "s2")),
    "wavelength_plan": lambda _: simulated(testbed.wavelength_plan("optical-cloud")),
}


def test_every_function_has_a_call() -> None:
    assert sorted(CALLS) == FUNCTIONS


@pytest.mark.parametrize("name", CALLS)
def test_call_returns_a_value_with_a_short_repr(name: str, tmp_path: Path) -> None:
    value = CALLS[name](tmp_path)
    assert value is not None
    if name not in ("data_frame", "networks", "runs", "traffic"):
        assert "\n" not in repr(value) and len(repr(value)) <= 200


@pytest.mark.parametrize("name", FUNCTIONS)
def test_docstring_describes_every_argument(name: str) -> None:
    function = getattr(testbed, name)
    doc = inspect.getdoc(function) or ""
    first = doc.splitlines()[0]
    assert first.endswith(".") and len(first) <= 100 and first[0].isupper()
    arguments = list(inspect.signature(function).parameters)
    assert not arguments or "Args:" in doc
    missing = [each for each in arguments if not re.search(rf"^    {each}:", doc, re.MULTILINE)]
    assert not missing


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signature_shows_what_is_returned(name: str) -> None:
    signature = inspect.signature(getattr(testbed, name))
    assert signature.return_annotation not in (inspect.Signature.empty, None, "None")
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    assert kinds == sorted(kinds)


def test_dir_lists_public_names_only() -> None:
    assert dir(testbed) == sorted([*testbed.__all__, "__version__"])
    program = "import testbed; print(*dir(testbed))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == dir(testbed)


def test_version_is_that_of_the_package() -> None:
    assert testbed.__version__ == version(DISTRIBUTION)


def test_module_runs_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "testbed", "--version"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stdout == f"testbed {testbed.__version__}\n"


def test_unknown_name_of_the_library_names_the_nearest() -> None:
    with pytest.raises(AttributeError, match="'steam_plan'; did you mean stream_plan"):
        testbed.steam_plan  # noqa: B018


def test_import_loads_nothing_else() -> None:
    program = (
        "import sys; before = set(sys.modules); import testbed; print(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["testbed"]


def test_page_says_for_every_command_what_the_function_is() -> None:
    page = (ROOT / "docs/howto/python.md").read_text()
    section = page.partition("## What a command does, in Python")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)", section))
    assert not COMMANDS.keys() - named
    assert not [
        name
        for name in testbed.__all__
        if f"`{name}" not in page and f".{name}" not in page and name[0].islower()
    ]
