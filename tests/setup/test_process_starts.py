"""No process with threads forks without exec: it would pass on locks, and descriptors of programs that start.

A thread that starts a program then waits for ever. Processes are started by ``ForkedProcess``, programs by
subprocess without a function between fork and exec.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.helpers.paths import ROOT

PRODUCT = ("testbed", "fec", "sfio_emu", "topologies", "experiments", "plugins", "tools")
ALLOWED = {
    ("testbed/emulation/sandbox/sandbox_entry.py", "os.fork"): "called where there is one thread",
    ("testbed/emulation/sandbox/process_lifetime.py", "os.fork"): "the child ends at once",
    ("testbed/emulation/sandbox/forked_process.py", "os.fork"): "called where there is one thread",
    ("testbed/emulation/sandbox/fork_server.py", "os.fork"): "a program with one thread",
    (
        "testbed/emulation/network/open_vswitch/parallel_close.py",
        "os.fork",
    ): "a program with one thread",
    ("testbed/results/parallel_seeds.py", "get_context('spawn')"): "starts programs",
    ("tools/build_kernels.py", "get_context('spawn')"): "starts programs",
    ("tools/build_kernels.py", "ProcessPoolExecutor"): "with the context above",
}
"""File and what it does -> why it may."""
FORKS = {"os.fork", "os.forkpty", "pty.fork"}
MAY_FORK = re.compile("fork|get_context|ProcessPoolExecutor|multiprocessing|preexec_fn")
STARTED_BY_FORK = {"Process", "Pool", "Manager", "Queue", "SimpleQueue", "set_start_method"}


def starts(source: str) -> Iterator[str]:
    """Yield everything in a module that forks, or may fork, without exec."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        name = called.rpartition(".")[2]
        if called in FORKS or name in {"fork", "forkpty"}:
            yield "os.fork" if called == "os.fork" else called
        elif name == "get_context":
            yield f"get_context({', '.join(map(ast.unparse, node.args))})"
        elif name == "ProcessPoolExecutor":
            yield name
        elif called == f"multiprocessing.{name}" and name in STARTED_BY_FORK:
            yield called
        if any(keyword.arg == "preexec_fn" for keyword in node.keywords):
            yield "preexec_fn"


@cache
def places() -> set[tuple[str, str]]:
    found = set()
    for folder in PRODUCT:
        for path in (ROOT / folder).rglob("*.py"):
            relative = path.relative_to(ROOT).as_posix()
            source = path.read_text()
            if MAY_FORK.search(source) and "/tests/" not in relative and "/.venv/" not in relative:
                found |= {(relative, start) for start in starts(source)}
    return found


def test_nothing_else_forks_without_exec() -> None:
    assert places() - ALLOWED.keys() == set()


def test_every_exception_is_needed() -> None:
    assert ALLOWED.keys() - places() == set()


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.fork()",
        "from os import fork\nfork()",
        "import multiprocessing\nmultiprocessing.get_context('fork').Process()",
        "import multiprocessing\nmultiprocessing.Process(target=print)",
        "from concurrent.futures import ProcessPoolExecutor\nProcessPoolExecutor()",
        "import subprocess\nsubprocess.run(['true'], preexec_fn=print)",
        "import pty\npty.fork()",
    ],
)
def test_each_kind_of_fork_is_noticed(source: str) -> None:
    assert list(starts(source)) != []
