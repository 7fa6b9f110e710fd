"""Coordinator of several machines.

It has a Dask scheduler and one actor per machine, asks for the machines' clocks, and notices when a
machine dies.
"""

from __future__ import annotations

import pickle
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from testbed.errors import CapabilityError, InvalidRunError, MachineDiedError
from testbed.machines.adapters import rpc_network
from testbed.machines.adapters.actor import MachineActor
from testbed.machines.adapters.clusters.dask_security import (
    local_cluster,
    quiet_dask,
    scheduler_security,
)
from testbed.machines.adapters.local_machines import (
    LocalMachine,
    address_of,
    local_machines,
    make_bridge,
)
from testbed.machines.adapters.stream_forwarding import listen_address
from testbed.machines.adapters.wireguard import encrypt
from testbed.machines.clocks.adapters.datagram_clock import ClockQuestions
from testbed.machines.clocks.exchange import KEY_BYTES
from testbed.machines.clocks.remote_clock import RemoteClock
from testbed.machines.machines_report import underlay_reason
from testbed.machines.machines_request import MachinesRequest
from testbed.machines.rpc import MAIN, unwrap
from testbed.machines.tunnel_plan import Carrier, tunnel_port
from testbed.model.wiring import VXLAN_BYTES

if TYPE_CHECKING:
    from distributed import Actor, ActorFuture, Client, Security

T = TypeVar("T")
# Time between two looks at the machines, in seconds.
_WATCH_S = 0.1
# A machine that answers no question for its clock for this long has died, in seconds.
_SILENT_S = 3.0
# How long to wait for Dask to notice a lost worker after a call failed, in seconds.
_NOTICED_S = 2.0
_POLL_S = 0.02
_FIRST_EXCHANGES = 10
# Exchanges (of the last three seconds) by which times are converted during a run. The logs of a run
# are converted by all its exchanges.
_RECENT_EXCHANGES = 60


class Pending(Generic[T]):
    """The answer to a request that is in progress."""

    def __init__(self, machines: Machines, number: int, future: ActorFuture) -> None:
        self._machines = machines
        self._number = number
        self._future = future

    def result(self, limit_s: float = 120.0) -> T:
        """Wait for the answer, and return its value.

        Args:
            limit_s: Limit on the time, in seconds.

        Raises:
            MachineDiedError: This machine or another one died.
            InvalidRunError: The limit on the time was reached.
        """
        name = self._machines.names[self._number]
        until_s = time.monotonic() + limit_s
        while not self._future.done():
            self._machines.check()
            if time.monotonic() > until_s:
                raise InvalidRunError(f"{name} gave no answer within {limit_s:g} s")
            time.sleep(0.001)
        try:
            data = self._future.result()
        except (OSError, RuntimeError) as error:
            self._machines.check(after_s=_NOTICED_S)
            raise MachineDiedError(f"{name}: {error}", self._number) from None
        return cast("T", unwrap(pickle.loads(data), name))


class Machines:
    """Machines that are running, numbered from 0.

    Attributes:
        names: Name of each machine.
        run: A random number that identifies this run on the machines.
        facts: Properties of each machine.
        carriers: The interface for tunnels of each machine.
        encrypted_by: The WireGuard implementation of each machine; empty without encryption.
        clocks: The exchanges of time stamps with each machine.
        began_s: When the machines were ready, on our monotonic clock, in seconds.
    """

    def __init__(
        self, client: Client, actors: Sequence[Actor], workers: Sequence[str], names: Sequence[str]
    ) -> None:
        self.names = tuple(names)
        self.run = secrets.randbits(30)
        self.facts: tuple[rpc_network.MachineFacts, ...] = ()
        self.carriers: tuple[Carrier, ...] = ()
        self.encrypted_by: tuple[str, ...] = ()
        self.clocks: tuple[ClockQuestions, ...] = ()
        self.began_s = time.monotonic()
        self._client = client
        self._actors = actors
        # Addresses of the machines' Dask workers.
        self._workers = workers
        # Number of the machine that died, when (on our monotonic clock), and what happened.
        self._dead: tuple[int, float, str] | None = None
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._watch_over, name="machines", daemon=True)
        self._watch.start()

    def __len__(self) -> int:
        return len(self.names)

    def call(
        self, number: int, function: Callable[..., T], *args: object, lane: str = MAIN
    ) -> Pending[T]:
        """Send a request to one machine, and return without waiting for the answer.

        Args:
            number: Number of the machine.
            function: Called as ``function(machine, *args)`` on the machine.
            args: Arguments that can be pickled.
            lane: Requests in the same lane are answered in order.

        Raises:
            MachineDiedError: A machine has died.
        """
        self.check()
        request = pickle.dumps((function, args, lane))
        try:
            return Pending(self, number, self._actors[number].call(request))
        except RuntimeError as error:
            # Dask raises this if it has lost the worker of the actor.
            self.check(after_s=_NOTICED_S)
            raise MachineDiedError(f"{self.names[number]}: {error}", number) from None

    def all(
        self, function: Callable[..., T], *args: object, lane: str = MAIN, limit_s: float = 120.0
    ) -> list[T]:
        """Send the same request to all machines at once, and return their answers in order.

        ``limit_s`` is the limit on the time for each answer, in seconds.
        """
        pending = [self.call(number, function, *args, lane=lane) for number in range(len(self))]
        return [answer.result(limit_s) for answer in pending]

    def check(self, after_s: float = 0.0) -> None:
        """Raise a MachineDiedError if a machine has died, or dies within ``after_s`` seconds."""
        until_s = time.monotonic() + after_s
        while self._dead is None and time.monotonic() < until_s:
            time.sleep(0.01)
        if self._dead is not None:
            number, at_s, what_happened = self._dead
            raise MachineDiedError(f"{self.names[number]} {what_happened}", number, at_s)

    def clock(self, number: int) -> RemoteClock:
        """Return a machine's clock, from all exchanges so far."""
        return RemoteClock(machine=self.names[number], exchanges=self.clocks[number].exchanges)

    def ours_s(self, number: int, theirs_s: float) -> float:
        """Convert a recent time of a machine's monotonic clock to ours, in seconds."""
        return float(self._recent_clock(number).ours([theirs_s]).middle_s[0])

    def theirs_s(self, number: int, ours_s: float) -> float:
        """Convert a time of our monotonic clock to a machine's, in seconds.

        The result is close enough to act at that time, also in the near future.
        """
        clock = self._recent_clock(number)
        offset_s, _ = clock.offset(clock.exchanges[-1].answered_ns / 1e9)
        return ours_s + offset_s

    def _recent_clock(self, number: int) -> RemoteClock:
        """Return a machine's clock from its last exchanges.

        Its cost does not grow with the length of the run.
        """
        exchanges = self.clocks[number].exchanges[-_RECENT_EXCHANGES:]
        return RemoteClock(machine=self.names[number], exchanges=exchanges)

    def degraded_links(self) -> str | None:
        """Return why the link to one of the machines was too poor for the run, or None."""
        for name, clock in zip(self.names, self.clocks, strict=True):
            reason = underlay_reason(name, clock.exchanges, clock.requested)
            if reason is not None:
                return reason
        return None

    @property
    def widest_mtu(self) -> int:
        """Size of the largest packet that fits through the tunnels of all machines, in bytes."""
        return min(carrier.mtu for carrier in self.carriers) - VXLAN_BYTES

    def introduce(self, underlay: str, stack: ExitStack) -> None:
        """Get the properties of the machines, and begin to compare clocks.

        Args:
            underlay: Name of the machines' interface towards each other.
            stack: Closes the sockets for the clocks.
        """
        self.facts = tuple(self.all(rpc_network.describe_machine, underlay))
        tunnels = tunnel_port(self.run)
        carriers: list[Carrier] = []
        for facts in self.facts:
            carrier = Carrier(
                interface=facts.underlay, address=facts.address, mtu=facts.mtu, port=tunnels
            )
            carriers.append(carrier)
        self.carriers = tuple(carriers)
        self._compare_clocks(tunnels + 1, stack)

    def _compare_clocks(self, port: int, stack: ExitStack) -> None:
        key = secrets.token_bytes(KEY_BYTES)
        pending: list[Pending[None]] = []
        for number, facts in enumerate(self.facts):
            asker = listen_address(facts.address)
            arguments = (facts.address, port, key, asker)
            pending.append(self.call(number, rpc_network.answer_clocks, *arguments))
        for answer in pending:
            answer.result()
        clocks: list[ClockQuestions] = []
        for facts in self.facts:
            sock = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            sock.connect((facts.address, port))
            questions = ClockQuestions(sock, key)
            stack.callback(questions.close)
            clocks.append(questions)
        self.clocks = tuple(clocks)
        for name, clock in zip(self.names, self.clocks, strict=True):
            clock.wait_for(_FIRST_EXCHANGES, 10.0, name)

    def _watch_over(self) -> None:
        """Look whether a machine has left the scheduler, or answers no question for its clock."""
        while not self._ended.wait(_WATCH_S) and self._dead is None:
            with suppress(OSError, TimeoutError):
                self._find_lost_worker()
            if self._dead is None:
                self._find_silent_machine()

    def _find_lost_worker(self) -> None:
        connected = self._client.sync(self._client.scheduler.identity, n_workers=-1)["workers"]
        for number, worker in enumerate(self._workers):
            if worker not in connected:
                reason = "has died: its worker left the scheduler"
                self._dead = (number, time.monotonic(), reason)

    def _find_silent_machine(self) -> None:
        now_ns = time.monotonic_ns()
        for number, clock in enumerate(self.clocks):
            exchanges = clock.exchanges
            if exchanges and now_ns - exchanges[-1].returned_ns > _SILENT_S * 1e9:
                reason = f"has not answered for {_SILENT_S:g} s"
                self._dead = (number, time.monotonic(), reason)
                return

    def close(self) -> None:
        """Stop the processes of the machines."""
        self._ended.set()
        self._watch.join(2)
        dead_number = None
        if self._dead is not None:
            dead_number, _, _ = self._dead
        stopping: list[ActorFuture] = []
        for number, actor in enumerate(self._actors):
            # The workers of the other machines may serve the next run.
            if number != dead_number:
                with suppress(OSError, RuntimeError):
                    stopping.append(actor.stop())
        until_s = time.monotonic() + 5
        while time.monotonic() < until_s and not all(future.done() for future in stopping):
            time.sleep(0.005)


@contextmanager
def machines_up(requested: MachinesRequest) -> Iterator[Machines]:
    """Run the machines, each with its process, and compare their clocks.

    Raises:
        CapabilityError: The scheduler cannot be reached, or machines were not ready in time.
    """
    from distributed import Client

    quiet_dask({"distributed.comm.timeouts.connect": 10, "distributed.admin.tick.limit": "1h"})
    with ExitStack() as stack:
        scheduler = requested.scheduler
        local: list[LocalMachine] = []
        security: Security | None
        if scheduler is None:
            scheduler, security, local = _start_local_machines(requested.count, stack)
        else:
            security = scheduler_security(scheduler, requested.tls)
        try:
            client = stack.enter_context(
                Client(scheduler, security=security, timeout=15, direct_to_workers=True)
            )
        except (OSError, ValueError) as error:
            raise CapabilityError(
                f"scheduler {scheduler}: cannot be reached ({type(error).__name__})"
            ) from None
        workers = _await_workers(client, requested, local)
        names = list(workers)
        addresses = list(workers.values())
        submitted: list[ActorFuture] = []
        for name, address in workers.items():
            actor = client.submit(
                MachineActor,
                name,
                actor=True,
                workers=[address],
                allow_other_workers=False,
                pure=False,
            )
            submitted.append(actor)
        limit = StartLimit(requested.start_s, local)
        actors = limit.results(submitted, names)
        machines = Machines(client, actors, addresses, names)
        stack.callback(machines.close)
        starting = [actor.start(tunnel_port(machines.run)) for actor in actors]
        limit.results(starting, names)
        machines.introduce(requested.underlay, stack)
        if requested.encrypt:
            machines.carriers, machines.encrypted_by = encrypt(
                machines.call, machines.names, machines.carriers
            )
        yield machines


def _start_local_machines(count: int, stack: ExitStack) -> tuple[str, Security, list[LocalMachine]]:
    """Start a scheduler and machines on this computer.

    Returns:
        The scheduler's address, its security, and the machines.
    """
    make_bridge()
    # This stack is entered before the scheduler, so that the scheduler can disconnect its workers
    # before their machines end.
    machine_stack = stack.enter_context(ExitStack())
    cluster = stack.enter_context(local_cluster(n_workers=0, host=address_of(-1)))
    scheduler = cluster.scheduler_address
    security = cluster.security
    certificate = (security.tls_worker_cert, security.tls_worker_key)
    local = machine_stack.enter_context(local_machines(count, scheduler, certificate))
    return scheduler, security, local


@dataclass(frozen=True)
class StartLimit:
    """Limit on the time of each step of starting machines.

    Attributes:
        limit_s: Limit for each step, in seconds.
        local: The machines on this computer, which may die meanwhile.
    """

    limit_s: float
    local: Sequence[LocalMachine]

    def results(self, pending: Sequence[ActorFuture], names: Sequence[str]) -> list[Any]:
        """Wait for all results.

        Raises:
            CapabilityError: A result did not arrive in time, or a machine on this computer died.
        """
        until_s = time.monotonic() + self.limit_s
        while not all(future.done() for future in pending) and time.monotonic() < until_s:
            for machine in self.local:
                machine.require_running()
            time.sleep(_POLL_S)
        late = [name for future, name in zip(pending, names, strict=True) if not future.done()]
        if late:
            raise CapabilityError(f"{', '.join(late)} not ready within {self.limit_s:g} s")
        return [future.result() for future in pending]


def _await_workers(
    client: Client, requested: MachinesRequest, local: Sequence[LocalMachine]
) -> dict[str, str]:
    """Wait for the workers of the machines.

    Returns:
        The address of each worker by its name, sorted by name.

    Raises:
        CapabilityError: Workers did not connect in time.
    """
    until_s = time.monotonic() + requested.start_s
    while True:
        connected = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
        address_of_name = {str(worker["name"]): address for address, worker in connected.items()}
        if local:
            required = [machine.name for machine in local]
        else:
            required = sorted(address_of_name)[: requested.count or len(address_of_name)]
        missing = [name for name in required if name not in address_of_name]
        if not missing and len(required) >= max(1, requested.count):
            return {name: address_of_name[name] for name in required}
        if time.monotonic() > until_s:
            late = ", ".join(missing) or f"{len(required)} of {requested.count} machines"
            raise CapabilityError(f"{late} not ready within {requested.start_s:g} s")
        for machine in local:
            machine.require_running()
        time.sleep(_POLL_S)
