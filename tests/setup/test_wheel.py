"""The package as others install it: a wheel in an environment of its own, with the light core only and without the
checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from fec.jit import KERNELS, KERNELS_DIGEST, processor_has_instructions
from fec.protocol.row_seals import c_module
from testbed.extras import DISTRIBUTION, EXTRA_OF
from tests.helpers.compiled_code import PACKAGES, hand_over_compiled_code
from tests.helpers.paths import ROOT

# With what `make kernels` has made: a build then only links it.
SOURCES = (
    "pyproject.toml",
    "setup.py",
    "README.md",
    "tools",
    *PACKAGES,
    *(["build/kernels"] if KERNELS.exists() else []),
)
C_MODULE = "fec/protocol/_packets.*.so"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def core_distributions(names: list[str]) -> dict[str, metadata.Distribution]:
    """These distributions and all that they need here, by name, as pip would install them."""
    found: dict[str, metadata.Distribution] = {}
    wanted = list(names)
    while wanted:
        name = wanted.pop()
        if name.lower() in found:
            continue
        distribution = found[name.lower()] = metadata.distribution(name)
        needs = [Requirement(text) for text in distribution.requires or ()]
        wanted += [
            one.name for one in needs if one.marker is None or one.marker.evaluate({"extra": ""})
        ]
    return found


def link_into(site: Path, distributions: dict[str, metadata.Distribution]) -> None:
    """Each top-level file or folder of the distributions, linked: the environment has these and no others."""
    for distribution in distributions.values():
        tops = {
            file.parts[0]
            for file in distribution.files or ()
            if file.parts[0] not in ("..", "__pycache__")
        }
        for top in tops:
            here, there = site / top, Path(str(distribution.locate_file(top)))
            if not here.exists() and there.exists():
                here.symlink_to(there)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the sources, as a build leaves files behind."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [
            "tar",
            "-C",
            ROOT,
            "--exclude=__pycache__",
            f"--exclude={C_MODULE}",
            "-cf",
            source / "all.tar",
            *SOURCES,
        ],
        check=True,
    )
    subprocess.run(["tar", "-C", source, "-xf", source / "all.tar"], check=True)
    words = [
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        str(out),
        str(source),
    ]
    subprocess.run([sys.executable, "-m", *words], check=True, timeout=240, cwd=out)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty virtual environment with the wheel installed by pip, and the core's distributions."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=False, symlinks=True)
    (site,) = place.glob("lib/python3*/site-packages")
    link_into(
        site, core_distributions([Requirement(text).name for text in PROJECT["dependencies"]])
    )
    words = [
        "pip",
        "--python",
        str(place / "bin" / "python"),
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--no-compile",
    ]
    subprocess.run([sys.executable, "-m", *words, str(wheel)], check=True, timeout=120, cwd=place)
    hand_over_compiled_code(site, place / "compiled")
    return place


def run(environment: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environ["NUMBA_CACHE_DIR"] = str(environment / "compiled")
    done = subprocess.run(
        words,
        cwd=environment,
        env=environ,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == code, done.stdout[-2000:] + done.stderr[-2000:]
    return done


def command(environment: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    return run(environment, str(environment / "bin" / "testbed"), *words, code=code)


def test_wheel_holds_every_data_file_and_nothing_else(wheel: Path) -> None:
    kernels = {f"fec/{path.name}" for path in (KERNELS, KERNELS_DIGEST)}
    if not processor_has_instructions() or shutil.which("gcc") is None:
        kernels = set()
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    made = {name for name in held if fnmatch(name, C_MODULE)}
    assert held - made == set(tracked.split()) | kernels
    assert len(made) == (c_module() is not None), (
        "it is compiled where it is compiled for a checkout"
    )
    assert {f"{package}/py.typed" for package in PACKAGES} <= held


def test_no_compiled_file_is_in_git() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert not [name for name in tracked if name.endswith((".so", ".o"))]


def test_core_is_a_dozen_distributions() -> None:
    core = core_distributions([Requirement(text).name for text in PROJECT["dependencies"]])
    assert len(core) <= 12, sorted(core)


def test_modules_come_from_the_environment_without_excluded_ones(
    environment: Path,
) -> None:
    program = (
        "import importlib.util as u, json, testbed, topologies; "
        f"print(json.dumps([testbed.__file__, topologies.__file__, [n for n in {sorted(EXTRA_OF)} if u.find_spec(n)]]))"
    )
    *files, others = json.loads(
        run(environment, str(environment / "bin" / "python"), "-c", program).stdout
    )
    assert all(file.startswith(str(environment)) for file in files) and others == []
    assert command(environment, "--version").stdout == f"testbed {PROJECT['version']}\n"


def test_route_of_the_core(environment: Path) -> None:
    document = json.loads(
        command(environment, "route", "swiss-t1", "--from", "s1", "--to", "s6", "--json").stdout
    )
    assert [layer["load"] for layer in document["layers"]] == ["1/4", "1/12"]


def test_routines_of_the_wheel_are_used_without_numba(environment: Path) -> None:
    program = (
        "import sys; sys.modules['numba'] = None; from fec.jit import kernels; "
        "assert kernels() is not None; from testbed.cli import main; "
        "sys.exit(main(['schedule', 'swiss-t1', '--json']))"
    )
    if not processor_has_instructions() or shutil.which("gcc") is None:
        pytest.skip("the wheel has no routines")
    document = json.loads(
        run(environment, str(environment / "bin" / "python"), "-c", program).stdout
    )
    assert document["frames"]


@pytest.mark.long
def test_schedule_simulated_demo_and_figures_left_out_of_the_core(environment: Path) -> None:
    assert "liquid" in command(environment, "schedule", "crossbar:4").stdout
    demo = command(environment, "demo", "--quick", "--fabric", "simulator")
    assert "verdict: passed" in demo.stdout
    words = [
        "bulk",
        "crossbar:3",
        "--fabric",
        "simulator",
        "--message-size",
        "10kB",
        "--no-comparison",
        "--json",
    ]
    moved = command(environment, *words)
    picture = environment / json.loads(moved.stdout)["results"] / "figure-missing.svg"
    assert "matplotlib, which is not installed" in picture.read_text()


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["schedule", "crossbar:3", "--scheduling", "cp-sat"], "schedulers"),
        (["download", "swiss-t1", "--from", "s1", "--to", "s6", "--fabric", "simulator"], "codes"),
        (["topology", "show", "topohub:gabriel/25/0"], "networks"),
        (["campaign", "quick"], "campaigns"),
        (["up", "ring:4"], "emulation"),
    ],
)
def test_missing_extra_is_one_line_with_the_pip_command_and_exit_code_3(
    environment: Path, words: list[str], extra: str
) -> None:
    said = command(environment, *words, code=3).stderr
    assert said.count("\n") == 1 and "pip install" in said
    if extra != "emulation" or "mininet" in said:  # a machine without Open vSwitch says that first
        assert f"pip install '{DISTRIBUTION}[{extra}] @ file://" in said


def test_missing_extra_is_a_capability_error_of_the_library(environment: Path) -> None:
    program = (
        "import testbed, testbed.errors\n"
        "try: testbed.schedule('crossbar:3', 'cp-sat')\n"
        "except testbed.errors.CapabilityError as error: print(error)"
    )
    assert (
        "[schedulers]"
        in run(environment, str(environment / "bin" / "python"), "-c", program).stdout
    )


def test_every_extra_that_a_run_needs_is_named_where_it_is_missing() -> None:
    extras = PROJECT["optional-dependencies"]
    modules: dict[str, str | None] = {"os-ken": "os_ken", "mpich": "mpi4py", "pyyaml": "yaml"}
    modules |= dict.fromkeys(("setuptools", "jupyterlab", PROJECT["name"]))
    for extra in set(EXTRA_OF.values()):
        for text in extras[extra]:
            module = modules.get(Requirement(text).name, Requirement(text).name)
            assert module is None or EXTRA_OF[module] == extra
    assert set(EXTRA_OF.values()) <= set(extras)
