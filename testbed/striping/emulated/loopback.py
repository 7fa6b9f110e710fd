"""Striped files without switches: the library with real files over loopback, in virtual time.

Content, messages and disk calls are those of a run on switches. Only the durations are predicted
instead of measured.
"""

import socket
import tempfile
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sfio_emu.adapters.listener import Listener, open_listening_socket
from sfio_emu.adapters.peers.group_server import GroupServer
from testbed.errors import InputError
from testbed.striping.emulated.clients import (
    Client,
    Reach,
    build_clients,
    close_all,
    open_together,
    operate,
)
from testbed.striping.measurements import (
    MTU_BYTES,
    Direction,
    OperationRecord,
    StripingMeasurements,
)
from testbed.striping.oracle import file_content, verified_subfiles, write_subfiles
from testbed.striping.placement import encoded_node_name
from testbed.striping.plan import StripingPlan
from testbed.striping.prediction import predict

# The time limit for a silent listener, and for the end of its thread.
_TIMEOUT_S = 10.0


def run_over_loopback(plan: StripingPlan, root: Path) -> StripingMeasurements:
    """Run a plan over loopback; the durations are those of its transfers in virtual time.

    Args:
        plan: The plan.
        root: The directory with the folders of the I/O nodes.

    Raises:
        InputError: The plan needs switches, because it has faults or sends fragments one by one.
    """
    if plan.faults or plan.killed:
        raise InputError(
            "the simulated fabric of striped files does not support faults; leave them out, or run"
            " on switches"
        )
    prediction = predict(plan, MTU_BYTES)
    if prediction is None:
        raise InputError(
            "the simulated fabric cannot time this run; use --optimise and more than one host"
        )
    sockets = {
        encoded_node_name(node): open_listening_socket("127.0.0.1", 0) for node in plan.placement.io
    }
    listener = Listener([(sock, root / host) for host, sock in sockets.items()], own_user=True)
    thread = threading.Thread(target=listener.serve_forever, daemon=True)
    addresses = {host: ("127.0.0.1", sock.getsockname()[1]) for host, sock in sockets.items()}
    thread.start()
    try:
        operations = _operations(plan, root, addresses, prediction.seconds)
    finally:
        listener.close()
        # The thread may not have been started.
        with suppress(RuntimeError):
            thread.join(_TIMEOUT_S)
    return StripingMeasurements(fabric="simulator", operations=operations, mtu_bytes=MTU_BYTES)


def _operations(
    plan: StripingPlan, root: Path, addresses: dict[str, tuple[str, int]], seconds: float
) -> tuple[OperationRecord, ...]:
    """Carry out all operations of the plan, and set their duration."""
    content = file_content(plan.file_bytes, plan.options.seed)
    reach = Reach(addresses=addresses, timeout_s=_TIMEOUT_S, open_socket=_open_socket)
    clients = build_clients(plan, content, reach)
    with (
        tempfile.TemporaryDirectory() as folder,
        GroupServer(f"unix:{folder}/group", len(clients)) as server,
    ):
        try:
            open_together(clients, lambda client: client.open(server.address, plan))
            if plan.options.operation == "read":
                write_subfiles(content, root, plan.placement, plan.options.stripe_unit)
            return tuple(
                _operate(plan, root, clients, direction, seconds) for direction in plan.directions
            )
        finally:
            close_all(clients)


def _open_socket(_node: str, _host: str) -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM)


def _operate(
    plan: StripingPlan, root: Path, clients: list[Client], direction: Direction, seconds: float
) -> OperationRecord:
    record = operate(clients, direction, optimised=plan.options.optimise)
    if direction == "write":
        content = file_content(plan.file_bytes, plan.options.seed)
        verified = verified_subfiles(content, root, plan.placement, plan.options.stripe_unit)
        record = replace(record, verified=verified)
    return replace(record, seconds=seconds)
