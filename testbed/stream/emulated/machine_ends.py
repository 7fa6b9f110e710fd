"""The ends of streams on one machine: what a run asks it to do; on one machine alone as on each of several.

The functions are requests (``testbed.machines.rpc``), all but the counts performed in the machine's first thread, whose
children the ends' processes are.
"""

from dataclasses import asdict, replace

from testbed.errors import InvalidRunError
from testbed.machines.adapters.rpc_network import network_of, read_links
from testbed.machines.rpc import MachineState
from testbed.model.progress import CounterReading
from testbed.stream.emulated.endpoints import EndpointProcess, receiver_process, sender_process
from testbed.stream.measurements import RELAYED
from testbed.stream.plan import StreamPlan
from topologies.text.json_types import JsonObject

SENDER, RECEIVER = "sender", "receiver"


def open_end(machine: MachineState, role: str, number: int, plan: StreamPlan, key: bytes) -> None:
    """Begin to make an end of stream ``number`` ready; it goes with the network. ``key``: the same for both of its
    ends."""
    net = network_of(machine)
    end = sender_process if role == SENDER else receiver_process
    process = machine.objects["built"].enter_context(end(net, net.wiring, plan, key))
    machine.objects.setdefault("ends", {})[role, number] = process


def ask_end(machine: MachineState, role: str, number: int, request: str, *args: object) -> object:
    """What a method of ``EndpointProcess`` answers: ``wait_until_ready``, ``begin`` (at time zero of the stream, on
    this machine's clock), ``result`` (when the stream is over; its times are seconds after its start)."""
    return getattr(_end(machine, role, number), request)(*args)


def check_end(machine: MachineState, role: str, number: int, now_s: float) -> None:
    """InvalidRunError where the end's process has ended without a result, ``now_s`` into the stream."""
    process = _end(machine, role, number)
    if not process.alive and not process.finished:
        raise InvalidRunError(f"the {role} ended early, {now_s:.1f} s into the stream: {process.error()}")


def read_ends(machine: MachineState) -> CounterReading:
    """What the links here and the ends here tell: packets of all streams, N of the first one."""
    gauges = {
        end: process.gauge for end, process in machine.objects.get("ends", {}).items() if process.gauge is not None
    }
    first = gauges.get((SENDER, 0))
    sent, received = (
        sum(int(gauge[0]) for (role, _), gauge in gauges.items() if role == which) for which in (SENDER, RECEIVER)
    )
    block_size = None if first is None else first[1] or None
    return replace(read_links(machine), sent=sent, received=received, block_size=block_size)


def network_facts(machine: MachineState) -> JsonObject:
    """What a run on this machine alone tells of its network: what built it, how packets were switched, and what the
    relay did with them."""
    net = network_of(machine)
    impaired = {name: asdict(report) for name, report in net.impairment_reports().items()}
    return {"datapath": net.datapath, "built_by": net.built_by(), **({RELAYED: impaired} if impaired else {})}


def _end(machine: MachineState, role: str, number: int) -> EndpointProcess:
    process = machine.objects["ends"][role, number]
    assert isinstance(process, EndpointProcess)
    return process
