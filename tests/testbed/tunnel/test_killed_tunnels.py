"""Of a tunnel whose end, or whose testbed, is killed nothing is left: no device, no process, no user's program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

import testbed
from testbed.api.emulated import sandbox_client
from testbed.errors import InvalidRunError

pytestmark = [pytest.mark.emulation, pytest.mark.unclocked]
MARK = "TESTBED_TEST_MARK"
FORWARDING = (
    "--between",
    "s0",
    "s1",
    "--mode",
    "adaptive",
    "--workload",
    "ping,voip",
    "--duration",
    "60s",
)


def marked(mark: str) -> dict[int, str]:
    """Process -> its words, of all that inherited the mark."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                found[int(entry.name)] = words
        except OSError:
            continue
    return found


def holding_devices(pids: dict[int, str]) -> list[int]:
    """Those that hold a TUN device, of which none outlives its last holder."""
    found = []
    for pid in pids:
        try:
            if any(
                str(file.readlink()).startswith("/dev/net/tun")
                for file in Path(f"/proc/{pid}/fd").iterdir()
            ):
                found.append(pid)
        except OSError:
            continue
    return found


def until(true: Callable[[], bool], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not (found := true()) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def devices(session: testbed.Session, node: str) -> str:
    return session.exec(node, ["ip", "-o", "link"], end_point=True).stdout


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_a_killed_testbed_leaves_no_end_no_device_and_no_program(
    number: int, tmp_path: Path
) -> None:
    mark = uuid.uuid4().hex
    words = [
        sys.executable,
        "-m",
        "testbed.cli",
        "tunnel",
        "ring:3",
        *FORWARDING,
        "--",
        "sleep",
        "1234",
    ]
    with (tmp_path / "said").open("wb") as said:
        run = subprocess.Popen(
            words, env=os.environ | {MARK: mark}, stdout=said, stderr=said, stdin=subprocess.DEVNULL
        )
    assert until(lambda: "sleep 1234 " in marked(mark).values()), (tmp_path / "said").read_text()
    assert len(holding_devices(marked(mark))) >= 2  # and what switches hold
    run.send_signal(number)
    run.wait(30)
    assert until(lambda: not marked(mark), 30), marked(mark)


def test_a_killed_end_takes_its_device_along_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    # a sandbox of its own: a fork of one that began earlier would not show the mark
    monkeypatch.setattr(sandbox_client, "subprocess", subprocess)
    with testbed.session("ring:3") as session:
        before = holding_devices(marked(mark))
        with (
            pytest.raises(InvalidRunError, match="the tunnel end at s0 died"),
            session.tunnel("s0", "s1") as one,
        ):
            ends = set(holding_devices(marked(mark))) - set(before)
            assert len(ends) == 2
            for pid in ends:
                os.kill(pid, signal.SIGKILL)
            for node in ("s0", "s1"):
                assert until(lambda node=node: one.device not in devices(session, node), 10)
            with pytest.raises(InvalidRunError, match="died"):
                one.counters()
        with session.tunnel("s0", "s1") as again:
            words = ["ping", "-n", "-q", "-c", "3", "-i", "0.1", again.address("s1")]
            assert " 3 received" in session.exec("s0", words, end_point=True).stdout
    assert until(lambda: not holding_devices(marked(mark)), 30), marked(mark)
    assert not [words for words in marked(mark).values() if "ovs" in words or "controller" in words]
