"""The list of running networks: age, size and owner, also of one that does not answer."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator

import pytest

from testbed.emulation.attach import running
from testbed.emulation.sandbox.control_socket import listen
from tests.helpers.commands import in_process


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A network that accepts connections and answers nothing."""
    monkeypatch.setattr(running, "_ANSWER_TIMEOUT_S", 0.1)
    name = f"silent-{uuid.uuid4().hex[:8]}"
    with listen(name):
        yield name


def test_network_that_does_not_answer_is_listed_without_its_size(silent: str) -> None:
    listed = json.loads(in_process("attach", "--json").stdout)
    assert silent in listed["networks"]
    (row,) = [row for row in listed["running"] if row["name"] == silent]
    assert [row[name] for name in ("age_s", "switches", "hosts", "cables")] == [None] * 4
    assert row["pid"] == os.getpid() and row["owner"] and row["command"]


def test_table_of_networks_is_aligned(silent: str) -> None:
    head, *rows = in_process("attach").stdout.splitlines()
    assert head.split() == ["name", "age", "switches", "hosts", "cables", "owner", "process"]
    (row,) = [row for row in rows if row.startswith(silent)]
    assert row.rstrip().endswith(str(os.getpid())) and len(row.rstrip()) <= len(head) + 8
