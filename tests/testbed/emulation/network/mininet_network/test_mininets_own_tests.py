"""Mininet's own tests and examples, fetched and not copied, by ``testbed python``: what passes, and what cannot and
why. Each has a sandbox of its own, because a test that fails leaves its network behind.

The table in docs/reference/mininet.md is this file's. ``TESTBED_MININET_SOURCE`` may name a folder with Mininet's
source; otherwise the archive of Debian's source package is fetched.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.module_files import module_of
from tests.helpers.paths import ROOT
from tests.helpers.warm import TESTBED, run

pytestmark = [pytest.mark.emulation, pytest.mark.unclocked]
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SHIM = """#!/bin/sh
export PYTHONPATH={source}:{root}
{case}
"""
INNER = "{python} -P -m testbed.emulation.network.mininet_network.script"


@pytest.fixture(scope="session")
def mininet_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Mininet's source, with programs mn and python in ``shim`` that run Mininet on late classes."""
    folder = tmp_path_factory.mktemp("mininet")
    source = Path(os.environ.get("TESTBED_MININET_SOURCE") or _fetched(folder))
    shim = folder / "shim"
    shim.mkdir()
    inner = INNER.format(python=sys.executable)
    for name in ("mn", "python", "python3"):
        case = f'case "$2" in mininet.*) exec {inner} "$@";; esac\nexec {sys.executable} "$@"'
        case = f'exec {inner} {source}/bin/mn "$@"' if name == "mn" else case
        (shim / name).write_text(SHIM.format(source=source, root=ROOT, case=case))
        (shim / name).chmod(0o755)
    (source / "shim").unlink(missing_ok=True)
    (source / "shim").symlink_to(shim)
    return source


def _fetched(folder: Path) -> Path:
    """As ``apt-get source --download-only mininet``, with lists of its own."""
    if shutil.which("apt-get") is None or not KEYRING.is_file():
        pytest.skip("Mininet's source package needs apt-get and Debian's keyring")
    for name in ("state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "list").write_text(
        f"deb-src [signed-by={KEYRING}] http://deb.debian.org/debian bookworm main\n"
    )
    where = {
        "Etc::sourcelist": folder / "list",
        "Etc::sourceparts": "/nonexistent",
        "State": folder / "state",
    }
    options = [
        f"-oDir::{name}={path}" for name, path in {**where, "Cache": folder / "cache"}.items()
    ]
    for words in (["update"], ["source", "--download-only", "mininet"]):
        subprocess.run(
            ["apt-get", *options, *words], cwd=folder, capture_output=True, timeout=120, check=False
        )
    archive = next(folder.glob("mininet_*.orig.tar.gz"), None)
    if archive is None:
        pytest.skip("Mininet's source package cannot be fetched")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return next(folder.glob("mininet-*"))


def by_testbed(
    source: Path, *words: str, typed: str = "", folder: str = "."
) -> subprocess.CompletedProcess[str]:
    path = f"{(source / 'shim').resolve()}:{os.environ['PATH']}"
    return subprocess.run(
        [sys.executable, "-P", "-m", "testbed.cli", "python", *words],
        input=typed, capture_output=True, text=True, timeout=150, cwd=source / folder, check=False,
        env={**os.environ, "PATH": path, "PYTHONPATH": f"{source}:{ROOT}"},
    )  # fmt: skip


LIBRARY = "hifi nets ptyleak switchdpidassignment util walkthrough"
EXAMPLES_TESTED = (
    "baresshd bind clusterSanity controllers controlnet cpu emptynet hwintf intfoptions limit "
    "linearbandwidth linuxrouter mobility multilink multiping multipoll multitest nat natnet "
    "numberedports popen scratchnet simpleperf sshd tree1024 treeping64 vlanhost"
)
FILES = [f"mininet/test/test_{name}.py" for name in LIBRARY.split()]
FILES += [f"examples/test/test_{name}.py" for name in EXAMPLES_TESTED.split()]


@pytest.mark.soak
@pytest.mark.timeout(1900)
@pytest.mark.parametrize("file", FILES)
def test_mininets_own_file(mininet_source: Path, file: str) -> None:
    """``tools/run_mininet_tests.py`` says ``passed``, or ``intended`` for a listed difference."""
    words = [sys.executable, str(ROOT / "tools/run_mininet_tests.py"), str(mininet_source), file]
    done = subprocess.run(
        [*words, "--output"], capture_output=True, text=True, timeout=1850, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_interrupted_round_runs_only_files_without_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = module_of(ROOT / "tools" / "run_mininet_tests.py")
    ran: list[str] = []

    def run_file(source: Path, file: str) -> Any:
        ran.append(file)
        if file == "c":
            raise KeyboardInterrupt
        return tool.FileResult(file=file, ran=2, skipped=0, failed=(), output="OK")

    monkeypatch.setattr(tool, "run_file", run_file)
    with pytest.raises(KeyboardInterrupt):
        list(tool.results(tmp_path, ["a", "b", "c"], tmp_path / "store"))
    results = list(tool.results(tmp_path, ["a", "b", "d"], tmp_path / "store"))
    assert ran == ["a", "b", "c", "d"]
    assert [(result.file, result.outcome) for result in results] == [
        ("a", "passed"),
        ("b", "passed"),
        ("d", "passed"),
    ]


@pytest.mark.soak
def test_custom_topology_of_the_archive(mininet_source: Path) -> None:
    words = ["--custom", "custom/topo-2sw-2host.py", "--topo", "mytopo", "--test", "pingall"]
    done = by_testbed(mininet_source, "bin/mn", *words)
    assert done.returncode == 0 and "0% dropped (2/2 received)" in done.stdout + done.stderr


EXAMPLES = {
    "bind": 90,
    "controllers2": 12, "emptynet": 2, "linuxrouter": 12, "multilink": 2, "numberedports": 20, "mobility": 6,
}  # fmt: skip
"""Examples that ask by a prompt, or ping by themselves -> answers to their last pingall."""


HELD = {"controllers2", "emptynet", "linuxrouter", "mobility", "multilink", "numberedports"}
"""What others hold as well, too (test_parity_with_mininet.py): left to `make soak`."""


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.soak] if one in HELD else []) for one in EXAMPLES]
)
def test_example_is_up_and_all_pairs_answer(tmp_path: Path, name: str) -> None:
    pytest.importorskip(
        f"mininet.examples.{name}", reason="Mininet is installed without its examples"
    )
    done = run(
        [*TESTBED, "python", "-m", f"mininet.examples.{name}"],
        input="pingall\nexit\n", capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False,
    )  # fmt: skip
    answers = re.findall(r"(\d+)% dropped \((\d+)/\d+ received\)", done.stdout + done.stderr)
    assert answers and set(answers) == {("0", str(EXAMPLES[name]))}, (done.stdout + done.stderr)[
        -3000:
    ]


TOPOLOGIES = {
    "SingleSwitchTopo(k=4)": 12,
    "SingleSwitchReversedTopo(k=3)": 6,
    "LinearTopo(k=2, n=2)": 12,
    "TreeTopo(depth=2, fanout=2)": 12,
    "MinimalTopo()": 2,
}


def test_topologies_of_the_library_answer(tmp_path: Path) -> None:
    lines = [
        "from mininet.net import Mininet",
        "from mininet.topo import *",
        "from mininet.topolib import *",
    ]
    for text in TOPOLOGIES:
        lines += [
            f"net = Mininet(topo={text})",
            "net.start()",
            "print('LOST', net.pingAll(timeout='2'))",
            "net.stop()",
        ]
    (tmp_path / "all.py").write_text("\n".join(lines))
    words = [*TESTBED, "python", "all.py"]
    done = run(words, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("LOST 0") == len(TOPOLOGIES)
