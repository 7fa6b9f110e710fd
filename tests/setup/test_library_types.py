"""Editors and type checkers see the installed library: its names, arguments and types."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.helpers.module_files import module_of
from tests.helpers.paths import ROOT
from tests.setup.test_wheel import PROJECT, SOURCES, core_distributions, link_into

#: User code, and behind each line the text that a type checker must print for it.
PROGRAM = """\
import testbed

plan = testbed.stream_plan("swiss-t1", "s1", "s6", routing="ecmp", faults=testbed.EachLink(most=3))
reveal_type(plan)  # StreamPlan
reveal_type(testbed.run(plan, fabric="simulator").verdict)  # Verdict
reveal_type(testbed.ror("swiss-t1", "s1", "s6"))  # RorResult
reveal_type(testbed.load("results/stream/RUN").manifest.command)  # str
reveal_type(testbed.__version__)  # str
testbed.route("swiss-t1", "s1", "s6").lode("s1->s2")  # lode
testbed.stream_plan("swiss-t1", "s1", "s6", ruoting="ecmp")  # ruoting
testbed.steam_plan("swiss-t1", "s1", "s6")  # steam_plan
with testbed.session("swiss-t1") as session:
    reveal_type(session.ping("t0", "r31"))  # Ping
    print(session.ping("t0", "r31").mean)  # mean
"""
ERRORS = 4


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with a plain editable install."""
    source = tmp_path_factory.mktemp("source")
    archive = source / "all.tar"
    tar = ["tar", "-C", ROOT, "--exclude=__pycache__", "--exclude=*.so", "-cf", archive, *SOURCES]
    subprocess.run(tar, check=True)
    subprocess.run(["tar", "-C", source, "-xf", archive], check=True)
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=False, symlinks=True)
    (site,) = place.glob("lib/python3*/site-packages")
    names = [Requirement(text).name for text in PROJECT["dependencies"]]
    link_into(site, core_distributions([*names, "setuptools"]))
    pip = [sys.executable, "-m", "pip", "--python", place / "bin" / "python", "install", "-q"]
    local = ["--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, *local, "-e", source], check=True, timeout=120)
    return place


def checker_lines(argv: list[object], folder: Path) -> dict[int, list[str]]:
    """Run a type checker on the program, and return what it prints for each line."""
    program = folder / "user.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [*map(str, argv), str(program)], capture_output=True, text=True, cwd=folder, timeout=280
    )
    lines: dict[int, list[str]] = {}
    for text in done.stdout.splitlines():
        number = text.partition("user.py:")[2].split(":")[0]
        if number.isdigit():
            lines.setdefault(int(number), []).append(text)
    assert lines, done.stdout + done.stderr
    return lines


def assert_types_are_known(lines: dict[int, list[str]]) -> None:
    for number, line in enumerate(PROGRAM.splitlines(), start=1):
        expected = line.partition("  # ")[2]
        if expected:
            assert any(expected in text for text in lines.get(number, [])), (line, lines)
    errors = [text for texts in lines.values() for text in texts if "error" in text]
    assert len(errors) == ERRORS, errors


def test_stub_is_what_the_tool_writes() -> None:
    tool = module_of(ROOT / "tools" / "build_stub.py")
    assert tool.stub_text() == (ROOT / "testbed/__init__.pyi").read_text()


def test_editable_install_is_a_folder_that_editors_read(environment: Path) -> None:
    (site,) = environment.glob("lib/python3*/site-packages")
    links = [path.read_text().strip() for path in site.glob("__editable__*.pth")]
    assert [Path(link, "testbed/__init__.pyi").is_file() for link in links] == [True]
    assert not list(site.glob("__editable__*finder.py"))


def test_completion_shows_names_and_arguments(environment: Path) -> None:
    jedi = pytest.importorskip("jedi", reason="jedi is not installed (extra test: ipykernel)")
    place = jedi.create_environment(environment, safe=False)
    plan = "import testbed\ntestbed.stream_plan("
    (signature,) = jedi.Script(plan, environment=place).get_signatures()
    names = [parameter.name for parameter in signature.params]
    assert names[:3] == ["network", "source", "sink"] and {"routing", "faults"} <= set(names)
    completions = jedi.Script("import testbed\ntestbed.", environment=place).complete()
    assert {"ror", "load", "stream_plan"} <= {completion.name for completion in completions}
    route = "import testbed\ntestbed.route('swiss-t1', 's1', 's6')."
    completions = jedi.Script(route, environment=place).complete()
    assert {"load", "loaded", "utilisations"} <= {completion.name for completion in completions}


@pytest.mark.long
def test_mypy_knows_the_types(environment: Path, tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed (extra lint)")
    python = environment / "bin" / "python"
    cache = tmp_path / "cache"
    argv = [sys.executable, "-m", "mypy", "--python-executable", python, "--cache-dir", cache]
    assert_types_are_known(checker_lines(argv, tmp_path))


@pytest.mark.long
def test_pyright_knows_the_types(environment: Path, tmp_path: Path) -> None:
    beside = Path(sys.executable).parent
    path = f"{beside}:{Path.home() / '.local/bin'}:/usr/local/bin:/usr/bin:/bin"
    checker = shutil.which("basedpyright", path=path) or shutil.which("pyright", path=path)
    if checker is None:
        pytest.skip("neither pyright nor basedpyright is installed (pip install basedpyright)")
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "standard"}))
    argv: list[object] = [checker, "--pythonpath", environment / "bin" / "python"]
    assert_types_are_known(checker_lines(argv, tmp_path))
