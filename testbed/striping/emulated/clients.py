"""Compute processes of a striped-file run as threads of one process: each with sockets in its own host's network.

Sixty-four processes would starve the machine; a thread waits for sockets nearly all of its time.
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

_JOIN_S = 30.0
_FEW, _LITTLE = 300, 60_000


@dataclass(frozen=True, kw_only=True)
class Reach:
    """How clients get to the listeners: I/O node -> address and port, how long a silent one is waited for, the key of
    the run (None: no key); ``open_socket(node, host)``: a socket of that compute node towards the I/O node ``host``."""

    addresses: Mapping[str, tuple[str, int]]
    timeout_s: float
    open_socket: Callable[[str, str], socket.socket]
    key: bytes | None = None


@dataclass(kw_only=True)
class Client:
    """One compute process: its node, its blocks, its data in the order of its blocks, and what became of it.

    ``reach``: how it gets to the listeners.
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
        """Collective over the clients of all machines, whose group's server is at that address: join it, open the file
        and give it its size."""
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
        """Collective: write and read a little of another file, so that programs and connections are warm."""
        assert self._session is not None
        offsets = self.blocks.offsets[:_FEW]
        sizes = np.minimum(self.blocks.sizes[:_FEW], max(1, _LITTLE // max(1, len(offsets))))
        ends = np.cumsum(sizes)
        name, unit = plan.placement.file_name("rehearsal"), plan.options.stripe_unit
        with StripedFile.open(name, unit, session=self._session) as file:
            memory = np.zeros(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
            if len(memory):
                file.pwrite_blocks(memory.data, offsets, ends - sizes, sizes)
                file.pread_blocks(memory.data, offsets, ends - sizes, sizes)

    def counted(self) -> dict[str, int]:
        """The counters of the open file so far."""
        counters = self._opened().counters
        return {
            key: getattr(counters, key)
            for key in ("messages", "fragments", "requests", "disk_calls")
        }

    def carry_out(self, direction: Direction, optimised: bool) -> bool:
        """All blocks, in one call or one message a fragment, from the data or into new memory; whether they are the
        data."""
        file, writing = self._opened(), direction == "write"
        memory = self.data if writing else np.zeros_like(self.data)
        ends, offsets, sizes = np.cumsum(self.blocks.sizes), self.blocks.offsets, self.blocks.sizes
        if optimised:
            act = file.pwrite_blocks if writing else file.pread_blocks
            act(memory.data, offsets, ends - sizes, sizes)
        else:
            each = file.write_fragments if writing else file.read_fragments
            for offset, end, size in zip(
                offsets.tolist(), ends.tolist(), sizes.tolist(), strict=True
            ):
                each(memory[end - size : end].data, offset)
        return bool(np.array_equal(memory, self.data))

    def close(self) -> None:
        """Let go of the connections, without a collective call."""
        if self._session is not None:
            self._session.close()
            self._session = None
        self.leave()
        self.file = None
        self.sockets.clear()

    def leave(self) -> None:
        """Leave the group: whoever waits for this process there is told."""
        if self._group is not None:
            self._group.close()

    def cut_off(self) -> None:
        """End the call that another thread is in, if any: its connections are shut."""
        for opened in list(self.sockets.values()):
            with contextlib.suppress(OSError):  # it is closed already
                opened.shutdown(socket.SHUT_RDWR)

    def flush(self, host: str) -> None:
        """Acknowledge at once what came from that host: later there may be no way to it."""
        with contextlib.suppress(OSError, KeyError):
            self.sockets[host].setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def _open_socket(self, host: str) -> socket.socket:
        opened = self.sockets[host] = self.reach.open_socket(self.node, host)
        return opened

    def _opened(self) -> StripedFile:
        assert self.file is not None
        return self.file


def all_at_once(
    clients: Sequence[Client], act: Callable[[Client], object], *, leave: bool = False
) -> float:
    """Every client acts in a thread of its own; seconds until the last was done. What one raises is in its ``error``;
    ``leave``: it leaves the group then."""
    start = threading.Barrier(len(clients) + 1)
    began = [0.0]

    def live(client: Client) -> None:
        client.error = None
        start.wait()
        try:
            act(client)
        except SfioError as error:
            client.error = error
            client.error_after_s = time.monotonic() - began[0]
            if leave:
                client.leave()
        client.done_s = time.monotonic() - began[0]

    threads = [threading.Thread(target=live, args=(client,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    began[0] = time.monotonic()
    start.wait()
    for thread in threads:
        thread.join()
    return max(client.done_s for client in clients)


def close_all(clients: Sequence[Client]) -> None:
    """Let go of all connections. Calls under way, of a run that was interrupted, end at once: to close a client waits
    for its call."""
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
    """One client a compute process of the plan; ``content``: of the file."""
    settings = replace(Settings(), **dict.fromkeys(plan.options.disable, False))  # type: ignore[arg-type]
    return [
        Client(
            rank=rank, node=node, blocks=blocks, data=data_of(content, blocks), reach=reach, turns=turns,
            settings=settings,
        )
        for rank, (node, blocks) in enumerate(zip(plan.placement.compute, plan.blocks, strict=True))
    ]  # fmt: skip


def open_together(clients: Sequence[Client], act: Callable[[Client], object]) -> None:
    """Make a collective call before any operation.

    Raises:
        SfioError: That of the first client that has one. A client whose own call failed comes before
            clients that were told of it.
    """
    all_at_once(clients, act, leave=True)
    errors = [client.error for client in clients if client.error is not None]
    errors.sort(key=lambda error: not isinstance(error, RemoteFailure))
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
    """All clients write, or read, at once: sums of their counters, who failed, and whether all that was read is right.

    ``fault_s``: when the first fault begins, after the start.

    Raises CapabilityError if the disk of an I/O node is full: that says nothing about the network.
    """
    before = [client.counted() for client in clients]
    right: dict[int, bool] = {}

    def act(client: Client) -> None:
        right[client.rank] = client.carry_out(direction, optimised)

    seconds = all_at_once(clients, act)
    for client in clients:
        if _is_disk_full(client.error):
            raise opening_error(client.error)
    after = [client.counted() for client in clients]
    sums: JsonObject = {
        key: sum(now[key] - then[key] for now, then in zip(after, before, strict=True))
        for key in after[0]
    }
    errors = tuple(
        ClientError(
            rank=c.rank,
            node=c.node,
            text=str(c.error),
            after_s=c.error_after_s,
            since_fault_s=c.error_after_s - fault_s,
        )
        for c in clients
        if c.error is not None
    )
    return OperationRecord(
        direction=direction,
        attempt=1,
        under_faults=False,
        seconds=seconds,
        bytes=sum(client.blocks.size_bytes for client in clients),
        verified=not errors and all(right.values()),
        errors=errors,
        **sums,
    )
