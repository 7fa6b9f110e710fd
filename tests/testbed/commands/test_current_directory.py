"""No command imports or runs a file of the current directory, in none of its processes."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.commands.command_list import COMMANDS
from tests.helpers.paths import ROOT
from tests.helpers.trap_folder import fill_with_traps

TESTBED = str(Path(sys.executable).with_name("testbed"))
STREAM_ENDS = "swiss-t1 --from s1 --to s6"
SHORT = "--max-faults 1 --duration 2"
RESULTS = "--results ../results"
#: The command that makes the stored run.
STORING = {"simulate": ["simulate torus:4x4 --loads 0.1:0.2:0.1 --results ../stored"]}
#: Command -> command lines; RUN is a stored run, CAMPAIGN a campaign, SCRIPT a Mininet script.
COMPUTING = {
    "route": [f"route {STREAM_ENDS} --json"],
    "report": ["report RUN"],
}
ON_SWITCHES = {"stream": [f"stream {STREAM_ENDS} {SHORT} {RESULTS}"]}
#: More processes of the same kinds, and commands that are one process.
LONG = {
    "topology": ["topology show swiss-t1 --plot ../network.svg", "topology list"],
    "campaign": [f"campaign CAMPAIGN --workers 2 {RESULTS}"],
    "live": [f"stream {STREAM_ENDS} {SHORT} {RESULTS} --live"],
    "python": ["python SCRIPT"],
    "doctor": ["doctor"],
    "ror": [f"ror {STREAM_ENDS}"],
    "demands": ["demands topohub:sndlib/abilene --routing capillary"],
    "schedule": ["schedule swiss-t1 --pattern t0:r5,t1:r6"],
    "allocate": ["allocate swiss-t1 --nodes 8"],
    "wavelengths": ["wavelengths optical-cloud"],
    "compare": ["compare RUN RUN"],
    "runs": ["runs .."],
    "schema": ["schema network"],
    "plugins": ["plugins list"],
    "demo": [f"demo --quick {RESULTS}"],
    "replicate": [f"replicate --quick --only liquid_patterns {RESULTS}"],
    "experiment": [
        "experiment list",
        f"experiment run liquid_patterns --quick --workers 2 {RESULTS}",
    ],
    "mobility": [f"mobility manet:nodes=8 --from n0 --to n1 --frames 2 {RESULTS}"],
    "bulk": [f"bulk swiss-t1 --message-size 20kB {RESULTS}"],
    "download": [f"download {STREAM_ENDS} --file-size 200kB {RESULTS}"],
    "tunnel": [f"tunnel swiss-t1 --between s1 s6 --workload ping --duration 3s {RESULTS}"],
    "sfio": [f"sfio crossbar:4 --compute-nodes 2 --io-nodes 2 --file-size 1MB {RESULTS}"],
    "run": [
        "run crossbar:4 --compute-nodes 2 --io-nodes 2 -- true",
        "run crossbar:4 --compute-nodes 2 --io-nodes 2 --mpi -- true",
    ],
    "machines": [f"stream {STREAM_ENDS} {SHORT} --machines 2 {RESULTS}"],
}
#: These need a network that is up.
ATTACHING = {"up", "exec", "attach"}
SCRIPT = """
from mininet.net import Mininet
from mininet.topo import SingleSwitchTopo

net = Mininet(topo=SingleSwitchTopo(2))
net.start()
net.pingAll()
net.stop()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("trap")
    fill_with_traps(root / "traps", root / "log")
    (root / "script.py").write_text(SCRIPT)
    campaign = 'name = "two"\nnetworks = ["swiss-t1"]\nmethods = ["single", "capillary"]\n'
    (root / "campaign.toml").write_text(campaign)
    return root


@pytest.fixture(scope="module")
def run_folder(folder: Path) -> Path:
    """Store a run in the folder, and check that its command imports nothing there."""
    for line in _lines(STORING):
        _run(folder, line.split())
    return next((folder / "stored/simulate").iterdir())


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def _run(folder: Path, argv: list[str]) -> None:
    done = subprocess.run(
        [TESTBED, *argv],
        cwd=folder / "traps",
        env=_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    log = folder / "log"
    noted = log.read_text() if log.exists() else ""
    log.unlink(missing_ok=True)
    assert noted == "", argv
    # The traps are not seen: the command does what it does elsewhere, or this machine cannot.
    assert done.returncode in (0, 1, 3, 4, 5), done.stderr
    assert "Traceback" not in done.stderr


def _run_line(folder: Path, run_folder: Path, line: str) -> None:
    line = line.replace("RUN", str(run_folder)).replace("CAMPAIGN", "../campaign.toml")
    _run(folder, line.replace("SCRIPT", "../script.py").split())


def _lines(table: dict[str, list[str]]) -> list[str]:
    return [line for lines in table.values() for line in lines]


def test_every_command_is_tried() -> None:
    assert {*STORING, *COMPUTING, *ON_SWITCHES, *LONG, *ATTACHING} >= set(COMMANDS)


@pytest.mark.parametrize("line", _lines(COMPUTING))
def test_command_imports_nothing(folder: Path, run_folder: Path, line: str) -> None:
    _run_line(folder, run_folder, line)


@pytest.mark.emulation
@pytest.mark.unclocked
@pytest.mark.parametrize("line", _lines(ON_SWITCHES))
def test_emulating_command_imports_nothing(folder: Path, run_folder: Path, line: str) -> None:
    _run_line(folder, run_folder, line)


@pytest.mark.emulation
@pytest.mark.long
@pytest.mark.parametrize("line", _lines(LONG))
def test_long_command_imports_nothing(folder: Path, run_folder: Path, line: str) -> None:
    _run_line(folder, run_folder, line)


@pytest.mark.emulation
@pytest.mark.unclocked
def test_attaching_imports_nothing(folder: Path) -> None:
    name = f"trap{os.getpid()}"
    up = subprocess.Popen(
        [TESTBED, "up", "crossbar:4", "--name", name],
        cwd=folder / "traps",
        env=_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with up:
        assert up.stdin is not None
        assert up.stdout is not None
        for line in up.stdout:
            if name in line:
                break
        _run(folder, ["exec", name, "t0", "--", "true"])
        _run(folder, ["attach"])
        up.stdin.close()
        up.stdout.read()
    assert not (folder / "log").exists()


def test_figures_ignore_settings_of_the_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backend that matplotlib does not know is none of our figures' business, either."""
    monkeypatch.setenv("MPLBACKEND", "nope")
    _run(folder, ["topology", "show", "crossbar:4", "--plot", "../drawn.svg"])
    assert "ff0000" not in (folder / "drawn.svg").read_text()


PACKAGES = ("topologies", "fec", "sfio_emu", "testbed", "experiments", "plugins", "examples")
IGNORING = {"-P", "-I"}


def _python_commands(source: str) -> Iterator[tuple[int, list[object]]]:
    """Return (line, literals after ``sys.executable``) for each list that begins a Python."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.List, ast.Tuple)):
            continue
        texts = [ast.unparse(element) for element in node.elts]
        if "sys.executable" not in texts:
            continue
        after = node.elts[texts.index("sys.executable") + 1 :]
        yield (
            node.lineno,
            [element.value if isinstance(element, ast.Constant) else None for element in after],
        )


def _imports_current_directory(literals: list[object]) -> bool:
    flag = literals[0] if literals else None
    runs_file = flag is None
    return not runs_file and flag not in IGNORING and not re.match("-I", str(flag))


def test_started_pythons_ignore_the_directory() -> None:
    """Each list of words that has ``sys.executable`` goes on with -P or -I, or names a file."""
    sources = {
        file: source
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
        if "sys.executable" in (source := file.read_text())
    }
    commands = {
        f"{file.relative_to(ROOT)}:{line}": literals
        for file, source in sources.items()
        for line, literals in _python_commands(source)
    }
    assert len(commands) > 10
    wrong = [place for place, literals in commands.items() if _imports_current_directory(literals)]
    assert wrong == []


@pytest.mark.parametrize("source", ['[sys.executable, "-m", name]', '[a, sys.executable, "-c", b]'])
def test_source_check_finds_wrong_commands(source: str) -> None:
    assert [_imports_current_directory(literals) for _, literals in _python_commands(source)] == [
        True
    ]


def test_processes_are_spawned_in_one_place() -> None:
    """``spawned_children`` is what keeps spawned Pythons from the current directory."""
    spawning = re.compile(r'"spawn"|"forkserver"|ProcessPoolExecutor|\bLocalCluster\(')
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    places = {str(file.relative_to(ROOT)) for file in files if spawning.search(file.read_text())}
    assert places == {
        "testbed/results/parallel_seeds.py",
        # Called inside spawned_children, or without workers on this machine.
        "testbed/machines/adapters/clusters/dask_security.py",
    }


def test_packages_are_no_namespaces() -> None:
    """Every folder of a package has an ``__init__.py``.

    For a folder without one, an installation in editable mode puts a relative name on the path of
    modules, and Python would import from a ZIP file of that name in the current directory.
    """
    packages = ("topologies", "fec", "sfio_emu", "testbed", "experiments")
    folders = [
        path
        for package in packages
        for path in (ROOT / package).rglob("*/")
        if path.is_dir() and path.name != "__pycache__" and any(path.iterdir())
    ]
    without = [path for path in folders if not (path / "__init__.py").exists()]
    assert [str(path.relative_to(ROOT)) for path in without] == []
