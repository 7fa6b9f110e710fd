"""What a daemon says when it ends is reported with what to do about it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from testbed.emulation.network.open_vswitch.switch_daemon import run_tool, with_hint
from testbed.emulation.network.open_vswitch.switches import tun_problem
from testbed.errors import CapabilityError


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_a_tmp_that_cannot_be_written_has_a_mend(number: int) -> None:
    words = f"ovsdb-server: failed to create temporary file ({os.strerror(number)})"
    assert with_hint(words) == (
        f"{words}; it needs a /tmp that can be written: mount a tmpfs there (containers: --tmpfs /tmp)"
    )
    assert with_hint("bad database") == "bad database"


def tool_that_fails(folder: Path, times: int, words: str) -> Path:
    """A program on the PATH that says so and fails so many times, then prints what it was given; what counts its
    runs."""
    runs, tool = folder / "runs", folder / "ovs-ofctl"
    tool.write_text(
        f"#!/bin/sh\necho >> {runs}\n"
        f'[ "$(wc -l < {runs})" -gt {times} ] && exec cat\necho "ovs-ofctl: {words}" >&2\nexit 1\n'
    )
    tool.chmod(0o755)
    return runs


@pytest.mark.parametrize(
    "why", ["open socket (Broken pipe)", "connect to socket (Connection reset by peer)"]
)
def test_a_tool_that_greeted_the_daemon_too_late_is_run_again(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    runs = tool_that_fails(tmp_path, 2, f"s0: failed to {why}")
    assert run_tool("ovs-ofctl", "add-flows", "s0", "-", limit_s=20, input_text="rules") == "rules"
    assert len(runs.read_text()) == 3


@pytest.mark.parametrize(
    ("words", "times"),
    [
        ("/run/s0.mgmt: failed to open socket (Broken pipe)", 10),
        ("s0 is not a bridge or a socket", 1),
    ],
)
def test_a_tool_that_is_refused_or_never_heard_is_given_up(
    words: str, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    runs = tool_that_fails(tmp_path, 99, words)
    with pytest.raises(CapabilityError) as refused:
        run_tool("ovs-ofctl", "add-flows", "s0", "-", limit_s=20)
    assert str(refused.value) == f"ovs-ofctl add-flows s0 -: ovs-ofctl: {words}"
    assert len(runs.read_text()) == times


@pytest.mark.parametrize(
    ("name", "says"), [("XFSZ", "raise the limit (ulimit -f)"), ("KILL", "signal 9 ended it")]
)
def test_tool_ended_by_a_signal_is_explained(
    name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    tool = tmp_path / "ovsdb-tool"
    tool.write_text(f"#!/bin/sh\nkill -{name} $$\n")
    tool.chmod(0o755)
    with pytest.raises(CapabilityError) as refused:
        run_tool("ovsdb-tool", "create", limit_s=20)
    assert says in str(refused.value)


def test_tun_device_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It opens, as in a container that has /dev/null in its place."""
    opened = os.open

    def open_null(path: str, flags: int) -> int:
        return opened("/dev/null" if path == "/dev/net/tun" else path, flags)

    monkeypatch.setattr(os, "open", open_null)
    problem = tun_problem()
    assert problem is not None
    assert "is not a tun device" in problem
