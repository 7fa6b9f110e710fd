"""Striped files on the simulated fabric: their listeners on the machine's loopback serve nobody else, and no file lies
elsewhere than it should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import testbed
from sfio_emu.adapters.root_locks import lock_root, unlock_root
from testbed.errors import InputError
from testbed.striping.emulated import loopback
from testbed.striping.workload import run_striping
from tests.helpers.ordinary_user import as_ordinary_user

ASK = (
    "import socket, sys\n"
    "s = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 10); s.settimeout(3)\n"
    "print(s.recv(1) or 'turned away')"
)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_is_turned_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    operations = loopback._operations

    def attacked(
        plan: Any, root: Path, addresses: dict[str, tuple[str, int]], seconds: float
    ) -> Any:
        words = as_ordinary_user(
            [sys.executable, "-c", ASK, str(next(iter(addresses.values()))[1])]
        )
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        heard.append(done.stdout.strip() or done.stderr)
        return operations(plan, root, addresses, seconds)

    monkeypatch.setattr(loopback, "_operations", attacked)
    plan = testbed.striping_plan("crossbar:4", 2, 2, file_bytes=10_000)
    assert testbed.run(plan, fabric="simulator").verdict.invalid is None
    assert heard == ["turned away"]


def test_io_nodes_of_any_name_keep_their_subfiles_below_the_folder(tmp_path: Path) -> None:
    names = ["a b", "x;y", "../beyond", "..", str(tmp_path / "absolute"), "p,q=r", "50%", "n" * 300]
    (tmp_path / "absolute").mkdir()
    (tmp_path / "absolute" / "data").write_text("another's")
    network = {"nodes": [{"id": "s"}, *({"id": name, "kind": "host"} for name in names)],
               "links": [{"source": name, "target": "s"} for name in names]}  # fmt: skip
    plan = testbed.striping_plan(
        network, len(names), len(names), file_bytes=10_000, operation="both"
    )
    done = run_striping(plan, tmp_path / "run" / "root", fabric="simulator")
    assert [record.verified for record in done.operations] == [True, True]
    assert (tmp_path / "absolute" / "data").read_text() == "another's"
    assert [one.name for one in (tmp_path / "run").iterdir()] == ["root"]
    folders = {one.name for one in (tmp_path / "run" / "root").iterdir()}
    assert (
        len(folders) == len(names)
        and {"a%20b", "x%3By", "..%2Fbeyond", "%2E%2E", "50%25"} < folders
    )


def test_a_folder_that_another_run_uses_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "r0").mkdir()
    (tmp_path / "r0" / "data").write_text("another's")
    held = lock_root(tmp_path / "r0")
    try:
        with pytest.raises(InputError, match="r0 is served by another listener"):
            run_striping(
                testbed.striping_plan("crossbar:2", 1, 1, file_bytes=1000),
                tmp_path,
                fabric="simulator",
            )
    finally:
        unlock_root(held)
    assert (tmp_path / "r0" / "data").read_text() == "another's"
