"""The coordinator's side: a Dask scheduler, one actor a machine, questions for their clocks, and a watch over who is
still there."""

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
    from distributed import Actor, ActorFuture, Client

T = TypeVar("T")
_WATCH_S = 0.1
_SILENT_S = 3.0
_POLL_S = 0.02
_FIRST_EXCHANGES = 10
_LATELY = 60
"""Exchanges, of three seconds, by which a moment is told while a run goes on; its logs are notified by all."""


class Pending(Generic[T]):
    """An answer that is on its way."""

    def __init__(self, machines: Machines, number: int, future: ActorFuture) -> None:
        self._machines, self._number, self._future = machines, number, future

    def result(self, limit_s: float = 120.0) -> T:
        """The answer. MachineDiedError where the machine, or any other, dies first; InvalidRunError after the limit."""
        until = time.monotonic() + limit_s
        while not self._future.done():
            self._machines.check()
            if time.monotonic() > until:
                raise InvalidRunError(
                    f"{self._machines.names[self._number]} gave no answer within {limit_s:g} s"
                )
            time.sleep(0.001)
        try:
            data = self._future.result()
        except (OSError, RuntimeError) as error:
            self._machines.check(after_s=2.0)
            raise MachineDiedError(
                f"{self._machines.names[self._number]}: {error}", self._number
            ) from None
        return cast("T", unwrap(pickle.loads(data), self._machines.names[self._number]))


class Machines:
    """Machines that are up; ``names``, ``facts`` and ``carriers`` (of their tunnels) in their order. ``key`` is this
    run's own."""

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
        self._client, self._actors, self._workers = client, actors, workers
        self._lost: tuple[int, float, str] | None = None
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._watch_over, name="machines", daemon=True)
        self._watch.start()

    def __len__(self) -> int:
        return len(self.names)

    def call(
        self, number: int, function: Callable[..., T], *args: object, lane: str = MAIN
    ) -> Pending[T]:
        """Ask one machine; returns at once."""
        self.check()
        request = pickle.dumps((function, args, lane))
        try:
            return Pending(self, number, self._actors[number].call(request))
        except RuntimeError as error:  # Dask: the worker that held the actor is lost
            self.check(after_s=2.0)
            raise MachineDiedError(f"{self.names[number]}: {error}", number) from None

    def all(
        self, function: Callable[..., T], *args: object, lane: str = MAIN, limit_s: float = 120.0
    ) -> list[T]:
        """Ask all the same at once; their answers in order."""
        requested = [self.call(number, function, *args, lane=lane) for number in range(len(self))]
        return [one.result(limit_s) for one in requested]

    def check(self, after_s: float = 0.0) -> None:
        """MachineDiedError where one has died since; looks again for so long."""
        until = time.monotonic() + after_s
        while self._lost is None and time.monotonic() < until:
            time.sleep(0.01)
        if self._lost is not None:
            number, at_s, how = self._lost
            raise MachineDiedError(f"{self.names[number]} {how}", number, at_s)

    def clock(self, number: int) -> RemoteClock:
        """All that is known of a machine's clock by now."""
        return RemoteClock(machine=self.names[number], exchanges=self.clocks[number].exchanges)

    def ours_s(self, number: int, theirs_s: float) -> float:
        """A moment of the machine's monotonic clock not long ago on ours."""
        return float(self._lately(number).ours([theirs_s]).middle_s[0])

    def theirs_s(self, number: int, ours_s: float) -> float:
        """What the machine's clock shows at that moment of ours, near enough to act at it."""
        clock = self._lately(number)
        return ours_s + clock.offset(clock.exchanges[-1].answered_ns / 1e9)[0]

    def _lately(self, number: int) -> RemoteClock:
        """A clock as its last seconds show it: quick to make, however long the run is."""
        return RemoteClock(
            machine=self.names[number], exchanges=self.clocks[number].exchanges[-_LATELY:]
        )

    def degraded_links(self) -> str | None:
        """Why the link to one of them was too poor, or None."""
        found = (
            underlay_reason(name, requested.exchanges, requested.requested)
            for name, requested in zip(self.names, self.clocks, strict=True)
        )
        return next((reason for reason in found if reason is not None), None)

    @property
    def widest_mtu(self) -> int:
        """Of a packet that fits through every machine's tunnels, bytes."""
        return min(carrier.mtu for carrier in self.carriers) - VXLAN_BYTES

    def introduce(self, underlay: str, stack: ExitStack) -> None:
        """Learn who they are, and begin to compare clocks."""
        self.facts = tuple(self.all(rpc_network.describe_machine, underlay))
        port = tunnel_port(self.run)
        self.carriers = tuple(
            Carrier(interface=f.underlay, address=f.address, mtu=f.mtu, port=port)
            for f in self.facts
        )
        key, port = secrets.token_bytes(KEY_BYTES), tunnel_port(self.run) + 1
        requested = [
            self.call(k, rpc_network.answer_clocks, f.address, port, key, listen_address(f.address))
            for k, f in enumerate(self.facts)
        ]
        for one in requested:
            one.result()
        questions = []
        for facts in self.facts:
            sock = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            sock.connect((facts.address, port))
            questions.append(ClockQuestions(sock, key))
            stack.callback(questions[-1].close)
        self.clocks = tuple(questions)
        for name, clock in zip(self.names, self.clocks, strict=True):
            clock.wait_for(_FIRST_EXCHANGES, 10.0, name)

    def _watch_over(self) -> None:
        """Who has left the scheduler, or answers no question for its clock."""
        while not self._ended.wait(_WATCH_S) and self._lost is None:
            with suppress(OSError, TimeoutError):
                there = self._client.sync(self._client.scheduler.identity, n_workers=-1)["workers"]
                for number, worker in enumerate(self._workers):
                    if worker not in there:
                        self._lost = (
                            number,
                            time.monotonic(),
                            "has died: its worker left the scheduler",
                        )
            now_ns = time.monotonic_ns()
            for number, one in enumerate(self.clocks):
                found = one.exchanges
                if (
                    found
                    and now_ns - found[-1].returned_ns > _SILENT_S * 1e9
                    and self._lost is None
                ):
                    self._lost = (number, time.monotonic(), f"has not answered for {_SILENT_S:g} s")

    def close(self) -> None:
        """Let go of them: their processes end."""
        self._ended.set()
        self._watch.join(2)
        lost = None if self._lost is None else self._lost[0]
        stopping = []
        for number, actor in enumerate(self._actors):
            if number != lost:  # the others' workers may go on when this run is over
                with suppress(OSError, RuntimeError):
                    stopping.append(actor.stop())
        until = time.monotonic() + 5
        while time.monotonic() < until and not all(one.done() for one in stopping):
            time.sleep(0.005)


@contextmanager
def machines_up(requested: MachinesRequest) -> Iterator[Machines]:
    """The machines, each with its process running, clocks compared. CapabilityError names who did not come up in
    time."""
    from distributed import Client

    quiet_dask({"distributed.comm.timeouts.connect": 10, "distributed.admin.tick.limit": "1h"})
    with ExitStack() as stack:
        scheduler = requested.scheduler
        local: list[LocalMachine] = []
        if scheduler is None:
            make_bridge()
            beneath = stack.enter_context(
                ExitStack()
            )  # the scheduler takes leave of its workers before they go
            host = address_of(-1)
            cluster = stack.enter_context(local_cluster(n_workers=0, host=host))
            scheduler, security = cluster.scheduler_address, cluster.security
            certificate = security.tls_worker_cert, security.tls_worker_key
            local = beneath.enter_context(local_machines(requested.count, scheduler, certificate))
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
        names, addresses = list(workers), list(workers.values())
        actors = [
            client.submit(
                MachineActor,
                name,
                actor=True,
                workers=[address],
                allow_other_workers=False,
                pure=False,
            )
            for name, address in workers.items()
        ]
        limit = StartLimit(requested.start_s, local)
        running = limit.results(actors, names)
        machines = Machines(client, running, addresses, names)
        stack.callback(machines.close)
        starting = [actor.start(tunnel_port(machines.run)) for actor in running]
        limit.results(starting, names)
        machines.introduce(requested.underlay, stack)
        if requested.encrypt:
            machines.carriers, machines.encrypted_by = encrypt(
                machines.call, machines.names, machines.carriers
            )
        yield machines


@dataclass(frozen=True)
class StartLimit:
    """The time in which each step of starting machines has to be done.

    Attributes:
        limit_s: Seconds for a step.
        local: The machines on this machine, which may die meanwhile.
    """

    limit_s: float
    local: Sequence[LocalMachine]

    def results(self, pending: Sequence[ActorFuture], names: Sequence[str]) -> list[Any]:
        """Wait for all results.

        Raises:
            CapabilityError: A result did not come in time, or a machine of this machine has died.
        """
        until = time.monotonic() + self.limit_s
        while not all(future.done() for future in pending) and time.monotonic() < until:
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
    """Name -> address of the machines' workers, by name. CapabilityError names those that did not come up."""
    expected = [machine.name for machine in local] or None
    until = time.monotonic() + requested.start_s
    while True:
        there = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
        found = {str(one["name"]): address for address, one in there.items()}
        required = (
            expected if expected is not None else sorted(found)[: requested.count or len(found)]
        )
        missing = [name for name in required if name not in found]
        if not missing and len(required) >= max(1, requested.count):
            return {name: found[name] for name in required}
        if time.monotonic() > until:
            who = ", ".join(missing) or f"{len(required)} of {requested.count} machines"
            raise CapabilityError(f"{who} not ready within {requested.start_s:g} s")
        for machine in local:
            machine.require_running()
        time.sleep(_POLL_S)
