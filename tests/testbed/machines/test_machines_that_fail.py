"""A machine that stands still: one that is up is named when it has been silent for 3 s, one that is not when its time
is over."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.emulation.sandbox.sandbox import probe_sandbox

OBSTACLE = probe_sandbox(clock_offset_s=1)
pytestmark = [
    pytest.mark.emulation,
    pytest.mark.unclocked,
    pytest.mark.skipif(OBSTACLE is not None, reason=str(OBSTACLE)),
]


def stop_process(*words: str) -> None:
    """The process whose command line ends with these words does nothing from then on, once there is one."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                found = (entry / "cmdline").read_bytes().split(b"\0")[:-1]
            except OSError:
                continue
            if [word.encode() for word in words] == found[-len(words) :] and b"-I" not in found:
                os.kill(int(entry.name), signal.SIGSTOP)
                return
        time.sleep(0.01)


def silent() -> dict[str, Any]:
    from testbed.errors import MachineDiedError
    from testbed.machines.adapters.cluster import machines_up
    from testbed.machines.machines_request import MachinesRequest

    try:
        with machines_up(MachinesRequest(count=2)) as machines:
            began_s = time.monotonic()
            stop_process("machine-1")  # its process; the Dask worker goes on
            while time.monotonic() < began_s + 20:
                machines.check()
                time.sleep(0.05)
    except MachineDiedError as error:
        return {"said": str(error), "after_s": (error.at_s or 0.0) - began_s}
    return {"said": "nothing", "after_s": 0.0}


def never_up() -> dict[str, Any]:
    from testbed.errors import CapabilityError
    from testbed.machines.adapters.cluster import machines_up
    from testbed.machines.adapters.local_machines import address_of
    from testbed.machines.machines_request import MachinesRequest

    stopper = threading.Thread(target=stop_process, args=("machine-1", address_of(1)))
    stopper.start()
    began_s = time.monotonic()
    try:
        with machines_up(MachinesRequest(count=2, start_s=6.0)):
            said = "nothing"
    except CapabilityError as error:
        said = str(error)
    stopper.join()
    return {"said": said, "after_s": time.monotonic() - began_s}


def test_a_machine_that_answers_nothing_for_3_s_is_named(sandboxed: Callable[..., Any]) -> None:
    found = sandboxed(silent)
    assert found["said"] == "machine-1 has not answered for 3 s"
    assert 2.5 < found["after_s"] < 8


@pytest.mark.long
def test_a_machine_that_is_not_up_in_time_is_named_and_no_other(
    sandboxed: Callable[..., Any],
) -> None:
    found = sandboxed(never_up)
    assert found["said"] == "machine-1 not ready within 6 s"
    assert found["after_s"] < 25


def killed_while_starting() -> dict[str, Any]:
    """One machine is killed as soon as it is there."""
    from testbed.errors import CapabilityError
    from testbed.machines.adapters import local_machines
    from testbed.machines.adapters.cluster import machines_up
    from testbed.machines.machines_request import MachinesRequest

    connect = local_machines.LocalMachine.connect

    def connect_and_die(machine: local_machines.LocalMachine) -> None:
        connect(machine)
        if machine.number == 1:
            machine.process.kill()

    local_machines.LocalMachine.connect = connect_and_die  # type: ignore[method-assign]
    began_s = time.monotonic()
    try:
        with machines_up(MachinesRequest(count=2)):
            said = ""
    except CapabilityError as error:
        said = str(error)
    return {"said": said, "after_s": time.monotonic() - began_s}


def test_machine_killed_while_it_starts_is_named_at_once(sandboxed: Callable[..., Any]) -> None:
    found = sandboxed(killed_while_starting)
    assert found["said"] == "machine-1 has died; it may have been killed"
    assert found["after_s"] < 30  # the limit for a machine that is slow is 60 s
