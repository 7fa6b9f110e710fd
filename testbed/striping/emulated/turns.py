"""The order of a collective access's transfers on a running network: time frames and circuits, for clients that are threads.

The coordinator and the arbiter of bulk transfers decide; a thread of its own talks to them and to the switches.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from sfio_emu.errors import PeerError
from testbed.bulk.coordinator import Action, BulkCoordinator, ChangeCircuits, Send
from testbed.bulk.emulated.switchboard import CircuitSwitchboard
from testbed.bulk.plan import BulkPlan
from testbed.errors import TestbedError
from testbed.striping.placement import Pair
from topologies.network import LinkId

_MAX_WAIT_S = 0.2


class TransferDesk:
    """Gives every transfer of a plan its turn; a context manager around one operation.

    ``stall_s``: the operation fails where no transfer ends for so long. ``deadlocks``, ``lost_links`` and ``failure`` tell
    afterwards what happened, ``frame_times_s`` when each time frame began and ended, ``late_s`` how late threads were.
    """

    def __init__(self, plan: BulkPlan, board: CircuitSwitchboard, *, stall_s: float) -> None:
        self._board = board
        self._coordinator = BulkCoordinator(plan, stall_s=stall_s)
        self._numbers: dict[Pair, int] = {(t.source, t.sink): i for i, t in enumerate(plan.transfers)}
        self._attempts: dict[int, int] = {}
        self._turns = [threading.Event() for _ in plan.transfers]
        self._done: deque[tuple[int, float]] = deque()
        self._given_s: dict[int, float] = {}
        self._late_s: dict[int, float] = {}
        self._wake_reader, self._wake_writer = os.pipe()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._stopping = False
        self._start = 0.0
        self.failure: str | None = None
        self.lost_links: list[LinkId] = []

    def __enter__(self) -> TransferDesk:
        self._start = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self._wake()
        self._thread.join()
        os.close(self._wake_reader)
        os.close(self._wake_writer)

    @property
    def deadlocks(self) -> Sequence[str]:
        """Circles of waiting transfers that were broken."""
        return self._coordinator.deadlocks

    @property
    def frame_times_s(self) -> tuple[tuple[float, float], ...]:
        """(begin, end) of every time frame."""
        return self._coordinator.frame_times()

    @property
    def late_s(self) -> dict[int, float]:
        """Transfer -> seconds between the giving of its turn and the thread that takes it, and between its end and the thread
        that hears of it: what processors that were busy elsewhere took, and no network."""
        return dict(self._late_s)

    @contextlib.contextmanager
    def turn(self, pair: Pair, leaving: Callable[[], None]) -> Iterator[None]:
        """Wait for the pair's turn, hold it for the time of the block; ``leaving`` is called at its end, the circuit
        still standing. Raises PeerError where no turn will come."""
        number = self._numbers.get(pair)
        if number is None:
            yield  # nothing of the network is between them
            return
        self._turns[number].wait()
        if self.failure is not None:
            raise PeerError(pair[1], self.failure)
        self._note_late(number, self._given_s.get(number))
        try:
            yield
            leaving()
        finally:
            self._done.append((number, self._now()))
            self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._wake_writer, b".")

    def _serve(self) -> None:
        poll = select.poll()
        for file in (self._wake_reader, *self._board.files):
            poll.register(file, select.POLLIN)
        try:
            self._coordinator.begin(0.0)
            self._obey()
            while not self._coordinator.over and not self._stopping:
                left = max(0.0, min(_MAX_WAIT_S, self._coordinator.deadline_s() - self._now()))
                for file, _ in poll.poll(left * 1000):
                    if file == self._wake_reader:
                        os.read(self._wake_reader, 4096)
                    else:
                        self._hear_switch(self._board.files[file])
                self._pass_on()
                self._coordinator.advance(self._now())
                self._obey()
            self._board.wait()
        except TestbedError as error:
            self.failure = str(error)
        finally:
            if not self._coordinator.over and self.failure is None:
                self.failure = "the operation was given up"
            for turn in self._turns:
                turn.set()

    def _now(self) -> float:
        return time.monotonic() - self._start

    def _note_late(self, number: int, since_s: float | None) -> None:
        if since_s is not None:
            self._late_s[number] = self._late_s.get(number, 0.0) + self._now() - since_s

    def _pass_on(self) -> None:
        while self._done:
            number, ended_s = self._done.popleft()
            self._note_late(number, ended_s)
            self._coordinator.message_done(number, self._attempts.get(number, 1), True, self._now())

    def _hear_switch(self, dpid: int) -> None:
        confirmed, lost = self._board.receive(dpid)
        if confirmed:
            self._coordinator.circuits_changed(self._now())
        if lost:
            self.lost_links += lost
            self._coordinator.link_lost(lost, self._now())

    def _obey(self) -> None:
        while actions := self._coordinator.actions():
            for action in actions:
                self._do(action)

    def _do(self, action: Action) -> None:
        if isinstance(action, Send):
            for number, attempt in action.messages:
                self._given_s[number] = self._now()
                self._attempts[number] = attempt  # a connection lives on: what a cut link took, TCP repeats
                self._turns[number].set()
        elif isinstance(action, ChangeCircuits):
            if self._board.changing:
                self._board.wait()
            self._board.start_change(action.set_up, action.tear_down)
            if not self._board.changing and not self._coordinator.over:  # nothing had to change
                self._coordinator.circuits_changed(self._now())
        else:
            self.failure = action.failure


class DeskTurns:
    """The turns of one compute process at the node ``source``. ``sinks``: I/O nodes in the order of its transfers; ``flush``
    sends the last acknowledgement to a host now."""

    def __init__(
        self,
        desk: Callable[[], TransferDesk | None],
        source: str,
        sinks: Sequence[str],
        flush: Callable[[str], None],
    ) -> None:
        self._desk, self._source, self._flush = desk, source, flush
        self._place = {sink: place for place, sink in enumerate(sinks)}

    def order(self, hosts: Sequence[str], direction: str) -> list[list[str]]:
        """One after another, as the schedule says; outside a scheduled operation all at once."""
        if self._desk() is None:
            return [list(hosts)]
        return [[host] for host in sorted(hosts, key=lambda h: self._place.get(h, -1))]

    def take(self, host: str, size_bytes: int, direction: str) -> contextlib.AbstractContextManager[None]:
        """The turn of this process with that I/O node."""
        desk = self._desk()
        if desk is None:
            return contextlib.nullcontext()
        return desk.turn((self._source, host), lambda: self._flush(host))
