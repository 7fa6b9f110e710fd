"""The library in a notebook's kernel: the twenty-line script, and a session that dies with the kernel, kill -9
included."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.paths import ROOT
from tests.helpers.warm import TESTBED, run

MARK = "TESTBED_TEST_MARK"
SESSION = """
import os, testbed
session = testbed.session("ring:4")
session.fail("s0->s1")
lost = session.ping("h0", "h1", 1, wait_s=0.2).received
session.restore("s0->s1")
back = session.ping("h0", "h1", 1).received
session.fail("s1->s2", "blackhole")
left_running = session.popen("h0", ["sleep", "1000"])
print(os.getpid(), lost, back)
"""


class Kernel:
    """A kernel of its own; ``run`` gives what a cell prints, an error in it fails the test with its traceback."""

    def __init__(self) -> None:
        pytest.importorskip("ipykernel")
        nbclient = pytest.importorskip("nbclient")
        import nbformat

        self._cells = nbformat.v4
        self.client = nbclient.NotebookClient(
            nbformat.v4.new_notebook(), timeout=200, kernel_name="python3"
        )

    def run(self, source: str) -> str:
        cell = self._cells.new_code_cell(source)
        self.client.nb.cells.append(cell)
        self.client.execute_cell(cell, len(self.client.nb.cells) - 1)
        return "".join(output.text for output in cell.outputs if output.get("name") == "stdout")


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[Kernel, str]]:
    """The kernel, and the word that marks its processes."""
    word = uuid.uuid4().hex
    monkeypatch.setenv(MARK, word)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    asyncio.set_event_loop(asyncio.new_event_loop())
    made = Kernel()
    with made.client.setup_kernel():
        yield made, word


def marked(word: str) -> list[int]:
    """Processes whose environment carries the mark; this one, which sets it for its children, does not."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit() and int(directory.name) != os.getpid():
            try:
                if f"{MARK}={word}".encode() in (directory / "environ").read_bytes():
                    found.append(int(directory.name))
            except OSError:
                continue
    return found


@pytest.mark.long
def test_script_in_a_cell_prints_what_the_command_prints(
    kernel: tuple[Kernel, str], tmp_path: Path
) -> None:
    made, _ = kernel
    printed = made.run((ROOT / "examples" / "one_stream.py").read_text())
    words = [
        "stream",
        "swiss-t1",
        "--from",
        "s1",
        "--to",
        "s6",
        "--max-faults",
        "3",
        "--fabric",
        "simulator",
        "--json",
    ]
    done = run(
        [*TESTBED, *words], capture_output=True, text=True, timeout=200, check=True, cwd=tmp_path
    )
    expected: dict[str, Any] = json.loads(done.stdout)
    expected.pop("results")
    assert json.loads(printed) == expected


@pytest.mark.emulation
@pytest.mark.unclocked
def test_killed_kernel_with_a_session_leaves_nothing(kernel: tuple[Kernel, str]) -> None:
    made, word = kernel
    before = {path.name for path in Path("/sys/class/net").iterdir()}
    pid, lost, back = made.run(SESSION).split()
    assert (lost, back) == ("0", "1")
    assert len(marked(word)) > 6
    os.kill(int(pid), signal.SIGKILL)
    limit = time.monotonic() + 30
    while marked(word) and time.monotonic() < limit:
        time.sleep(0.05)
    assert marked(word) == []
    assert {path.name for path in Path("/sys/class/net").iterdir()} == before
