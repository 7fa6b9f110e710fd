"""One end of a stream on one of several machines: what the coordinator of such a run asks that machine to do.

The functions are requests (``testbed.machines.requests``), all but the counts performed in the machine's first thread, whose
children the ends' processes are.
"""

from __future__ import annotations

from contextlib import ExitStack

from testbed.machines.adapters.on_machine import network_of
from testbed.machines.requests import Machine
from testbed.stream.emulated.endpoints import (
    EndpointProcess,
    ReceiverResult,
    SenderResult,
    receiver_process,
    sender_process,
)
from testbed.stream.plan import StreamPlan

SENDER, RECEIVER = "sender", "receiver"


def open_end(machine: Machine, role: str, number: int, plan: StreamPlan, key: bytes) -> None:
    """Make an end of stream ``number`` ready to begin at once; ``key``: the same for both of its ends."""
    net = network_of(machine)
    end = sender_process if role == SENDER else receiver_process
    ends: ExitStack = machine.kept.get("ends") or machine.kept["built"].enter_context(ExitStack())
    machine.kept["ends"] = ends
    process = ends.enter_context(end(net, net.wiring, plan, key))
    machine.kept[role, number] = process
    process.wait_until_ready()


def begin_end(machine: Machine, role: str, number: int, start_s: float) -> None:
    """Time zero of the stream, on this machine's clock."""
    _end(machine, role, number).begin(start_s)


def early_end(machine: Machine, role: str, number: int) -> str | None:
    """How the end's process ended, if it did without a result."""
    process = _end(machine, role, number)
    return process.error() if not process.alive and not process.finished else None


def gauge_of(machine: Machine, role: str, number: int) -> tuple[float, ...]:
    """Packets that the end has sent or received so far, and the sender's N; empty where it does not tell."""
    return tuple(_end(machine, role, number).gauge or ())


def result_of(machine: Machine, role: str, number: int) -> SenderResult | ReceiverResult:
    """What the end measured; its times are seconds after its start. Returns when the stream is over."""
    found = _end(machine, role, number).result()
    assert isinstance(found, SenderResult | ReceiverResult)
    return found


def _end(machine: Machine, role: str, number: int) -> EndpointProcess:
    process = machine.kept[role, number]
    assert isinstance(process, EndpointProcess)
    return process
