"""The compute processes of a striped-file run, as threads of one process.

Each has sockets in its own host's network. Sixty-four processes would overload the machine. A
thread waits for sockets nearly all of its time.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

import numpy as np

from sfio_emu import Session, Settings, SfioError, StripedFile
from sfio_emu.adapters.process_group import SocketGroup
from sfio_emu.adapters.sockets import TcpConnections
from sfio_emu.errors import RemoteFailure
from sfio_emu.ports import Turns
from testbed.errors import DISK_FULL, CapabilityError, InputError, TestbedError
from testbed.striping.access import Blocks
from testbed.striping.measurements import ClientError, Direction, OperationRecord
from testbed.striping.oracle import Bytes, data_of
from testbed.striping.plan import StripingPlan
from topologies import JsonObject

# The time limit for joining the group of all clients.
_JOIN_S = 30.0
# A rehearsal writes and reads this number of blocks, and about this number of bytes in all.
_REHEARSED_BLOCKS = 300
_REHEARSED_BYTES = 60_000
# The counters of the library that the record of an operation contains.
_COUNTERS = ("messages", "fragments", "requests", "disk_calls")


@dataclass(frozen=True, kw_only=True)
class Reach:
    """The addresses, sockets and time limits with which clients reach the listeners.

    Attributes:
        addresses: The address and port of each I/O node, by its name in file names.
        timeout_s: A listener that is silent for this time is given up.
        open_socket: Opens a socket of a compute node (first argument) for an I/O node (second).
        key: The key of the run, or None.
    """

    addresses: Mapping[str, tuple[str, int]]
    timeout_s: float
    open_socket: Callable[[str, str], socket.socket]
    key: bytes | None = None


@dataclass(kw_only=True)
class Client:
    """One compute process.

    Attributes:
        rank: Its rank.
        node: Its node.
        blocks: Its blocks.
        data: The content of its blocks, in their order.
        reach: How it reaches the listeners.
        turns: Creates the object that orders its transfers to and from I/O nodes. None: all
            transfers begin at the same time.
        settings: Settings of the library.
        sockets: Its sockets, by I/O node.
        file: The file, if it is open.
        error: The error of the last call, or None.
        error_after_s: The time between the start of this call and the error.
        done_s: The time between the start of the last call and its end.
    """

    rank: int
    node: str
    blocks: Blocks
    data: Bytes
    reach: Reach
    turns: Callable[[Client], Turns] | None = None
    settings: Settings = field(default_factory=Settings)
    sockets: dict[str, socket.socket] = field(default_factory=dict)
    file: StripedFile | None = None
    error: SfioError | None = None
    error_after_s: float = 0.0
    done_s: float = 0.0
    _session: Session | None = None
    _group: SocketGroup | None = None

    def open(self, group: str, plan: StripingPlan) -> None:
        """Join the group, open the file, and set its size.

        All clients of all machines must call this together.

        Args:
            group: The address of the group's server.
            plan: The plan.
        """
        reach = self.reach
        connections = TcpConnections(
            reach.addresses, timeout_s=reach.timeout_s, open_socket=self._open_socket, key=reach.key
        )
        turns = None if self.turns is None else self.turns(self)
        self._group = SocketGroup.join(group, self.rank, len(plan.placement.compute), _JOIN_S)
        self._session = Session(connections, self._group, turns, self.settings)
        self.file = StripedFile.open(
            plan.placement.file_name(), plan.options.stripe_unit, session=self._session
        )
        self.file.truncate(plan.file_bytes)

    def rehearse(self, plan: StripingPlan) -> None:
        """Write and read a little of another file, so that code and connections are warm.

        All clients must call this together.
        """
        assert self._session is not None
        offsets = self.blocks.offsets[:_REHEARSED_BLOCKS]
        max_bytes = max(1, _REHEARSED_BYTES // max(1, len(offsets)))
        sizes = np.minimum(self.blocks.sizes[:_REHEARSED_BLOCKS], max_bytes)
        ends = np.cumsum(sizes)
        name = plan.placement.file_name("rehearsal")
        with StripedFile.open(name, plan.options.stripe_unit, session=self._session) as file:
            memory = np.zeros(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
            if len(memory):
                file.pwrite_blocks(memory.data, offsets, ends - sizes, sizes)
                file.pread_blocks(memory.data, offsets, ends - sizes, sizes)

    def counted(self) -> dict[str, int]:
        """Return the counters of the open file."""
        counters = self._open_file().counters
        return {name: getattr(counters, name) for name in _COUNTERS}

    def carry_out(self, direction: Direction, optimised: bool) -> bool:
        """Write all blocks from ``data``, or read them into new memory.

        Args:
            direction: Whether to write or read.
            optimised: True: in one call. False: one message per fragment.

        Returns:
            Whether the memory has the right content.
        """
        file = self._open_file()
        is_write = direction == "write"
        memory = self.data if is_write else np.zeros_like(self.data)
        offsets = self.blocks.offsets
        sizes = self.blocks.sizes
        ends = np.cumsum(sizes)
        if optimised:
            transfer_blocks = file.pwrite_blocks if is_write else file.pread_blocks
            transfer_blocks(memory.data, offsets, ends - sizes, sizes)
        else:
            transfer_block = file.write_fragments if is_write else file.read_fragments
            for offset, end, size in zip(
                offsets.tolist(), ends.tolist(), sizes.tolist(), strict=True
            ):
                transfer_block(memory[end - size : end].data, offset)
        return bool(np.array_equal(memory, self.data))

    def close(self) -> None:
        """Close the connections, without a collective call."""
        if self._session is not None:
            self._session.close()
            self._session = None
        self.leave()
        self.file = None
        self.sockets.clear()

    def leave(self) -> None:
        """Leave the group. Clients that wait for this one in a collective call are notified."""
        if self._group is not None:
            self._group.close()

    def cut_off(self) -> None:
        """End the call of another thread, if there is one, by shutting its connections down."""
        for opened in list(self.sockets.values()):
            # The socket may have been closed meanwhile.
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)

    def flush(self, host: str) -> None:
        """Acknowledge the packets of a host at once, because its circuit may soon be removed."""
        with contextlib.suppress(OSError, KeyError):
            self.sockets[host].setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def _open_socket(self, host: str) -> socket.socket:
        opened = self.reach.open_socket(self.node, host)
        self.sockets[host] = opened
        return opened

    def _open_file(self) -> StripedFile:
        assert self.file is not None
        return self.file


def all_at_once(
    clients: Sequence[Client], act: Callable[[Client], object], *, leave: bool = False
) -> float:
    """Let every client act in its own thread, all from the same moment.

    Errors of the library are stored in ``Client.error``.

    Args:
        clients: The clients.
        act: Called with each client.
        leave: Whether a client with an error leaves the group.

    Returns:
        The seconds until the last client was done.
    """
    start = threading.Barrier(len(clients) + 1)
    began_s = 0.0

    def run(client: Client) -> None:
        client.error = None
        start.wait()
        try:
            act(client)
        except SfioError as error:
            client.error = error
            client.error_after_s = time.monotonic() - began_s
            if leave:
                client.leave()
        client.done_s = time.monotonic() - began_s

    threads = [threading.Thread(target=run, args=(client,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    # The barrier opens after this assignment, so that all threads see it.
    began_s = time.monotonic()
    start.wait()
    for thread in threads:
        thread.join()
    return max(client.done_s for client in clients)


def close_all(clients: Sequence[Client]) -> None:
    """Close all connections.

    Closing a client waits for its call. Calls of an interrupted run are therefore ended first.
    """
    for client in clients:
        client.cut_off()
    for client in clients:
        client.close()


def build_clients(
    plan: StripingPlan,
    content: Bytes,
    reach: Reach,
    *,
    turns: Callable[[Client], Turns] | None = None,
) -> list[Client]:
    """Return one client for each compute process of the plan.

    Args:
        plan: The plan.
        content: The content of the file.
        reach: How clients reach the listeners.
        turns: Creates the object that orders a client's transfers, as in ``Client.turns``.
    """
    disabled: JsonObject = dict.fromkeys(plan.options.disable, False)
    settings = replace(Settings(), **disabled)
    nodes_and_blocks = zip(plan.placement.compute, plan.blocks, strict=True)
    clients = []
    for rank, (node, blocks) in enumerate(nodes_and_blocks):
        client = Client(
            rank=rank,
            node=node,
            blocks=blocks,
            data=data_of(content, blocks),
            reach=reach,
            turns=turns,
            settings=settings,
        )
        clients.append(client)
    return clients


def open_together(clients: Sequence[Client], act: Callable[[Client], object]) -> None:
    """Make a collective call before any operation.

    Raises:
        SfioError: The error of the first client that has one. A client whose own call failed comes
            before clients that were notified of it.
    """
    all_at_once(clients, act, leave=True)
    errors = [client.error for client in clients if client.error is not None]
    for error in errors:
        if isinstance(error, RemoteFailure):
            raise error
    if errors:
        raise errors[0]


def _is_disk_full(error: Exception | None) -> TypeGuard[RemoteFailure]:
    return isinstance(error, RemoteFailure) and error.errno in DISK_FULL


def opening_error(error: SfioError) -> TestbedError:
    """Return the error of a run whose striped file could not be opened or written."""
    if _is_disk_full(error):
        return CapabilityError(
            f"the disk of the subfiles is full ({error}); free space there, or give another"
            " --subfile-dir"
        )
    return InputError(f"the striped file could not be opened: {error}")


def operate(
    clients: Sequence[Client], direction: Direction, *, optimised: bool, fault_s: float = 0.0
) -> OperationRecord:
    """Let all clients write, or read, at the same time.

    Args:
        clients: The clients.
        direction: Whether they write or read.
        optimised: True: in one call. False: one message per fragment.
        fault_s: The time between the start and the first fault.

    Returns:
        The record of the operation, with the sums of all counters.

    Raises:
        CapabilityError: The disk of an I/O node is full. This says nothing about the network.
    """
    before = [client.counted() for client in clients]
    right: dict[int, bool] = {}

    def act(client: Client) -> None:
        right[client.rank] = client.carry_out(direction, optimised)

    seconds = all_at_once(clients, act)
    for client in clients:
        if _is_disk_full(client.error):
            raise opening_error(client.error)
    sums: JsonObject = dict.fromkeys(_COUNTERS, 0)
    for client, earlier in zip(clients, before, strict=True):
        for name, count in client.counted().items():
            sums[name] += count - earlier[name]
    errors = []
    for client in clients:
        if client.error is not None:
            error = ClientError(
                rank=client.rank,
                node=client.node,
                text=str(client.error),
                after_s=client.error_after_s,
                since_fault_s=client.error_after_s - fault_s,
            )
            errors.append(error)
    return OperationRecord(
        direction=direction,
        attempt=1,
        under_faults=False,
        seconds=seconds,
        bytes=sum(client.blocks.size_bytes for client in clients),
        verified=not errors and all(right.values()),
        errors=tuple(errors),
        **sums,
    )
