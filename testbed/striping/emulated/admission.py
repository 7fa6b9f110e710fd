"""Admission of a collective access's transfers to the network: in time frames, over circuits, for clients that are
threads.

A client waits until its transfer is admitted, moves its bytes, and gives its links back. Which transfer is admitted
when is the decision of bulk transfers' coordinator, carried out by their driver in a thread of its own
(``testbed.bulk.emulated``).
"""

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from sfio_emu.errors import PeerError
from testbed.bulk.coordinator import BulkCoordinator
from testbed.bulk.emulated.switchboard import CircuitDriver, CircuitSwitchboard
from testbed.bulk.plan import BulkPlan, Pair
from testbed.errors import TestbedError
from testbed.striping.placement import file_host


class TransferAdmission:
    """Admits every transfer of a plan once; a context manager around one operation.

    ``stall_s``: the operation fails where no transfer ends for so long. Afterwards ``failure`` says why it did not come
    to its end (None where it did), ``deadlocks`` and ``frame_times_s`` what happened, ``late_s`` how late threads were.
    """

    def __init__(self, plan: BulkPlan, switchboard: CircuitSwitchboard, *, stall_s: float) -> None:
        self._switchboard = switchboard
        self._coordinator = BulkCoordinator(plan, stall_s=stall_s)
        self._numbers: dict[Pair, int] = {
            (t.source, t.sink): i for i, t in enumerate(plan.transfers)
        }
        self._attempts: dict[int, int] = {}
        self._admitted = [threading.Event() for _ in plan.transfers]
        self._done: deque[tuple[int, float]] = deque()
        self._admitted_s: dict[int, float] = {}
        self._late_s: dict[int, float] = {}
        self._wake_reader, self._wake_writer = os.pipe()
        self._thread = threading.Thread(target=self._drive, daemon=True)
        self.failure: str | None = None

    def __enter__(self) -> "TransferAdmission":
        self._driver = CircuitDriver(
            self._coordinator, self._switchboard, self._admit, start_s=time.monotonic()
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._driver.stop()
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
    def thread_delay_s(self) -> dict[int, float]:
        """Transfer -> seconds between its admission and the thread that was to move it, and between its end and the
        thread that was to take note: what processors that were busy elsewhere took, and no network."""
        return dict(self._late_s)

    @contextlib.contextmanager
    def transfer(self, pair: Pair, before_release: Callable[[], None]) -> Iterator[None]:
        """Wait until the pair's transfer is admitted and hold its links while the block runs. ``before_release`` is
        called at its end, the circuit still standing. Raises PeerError where the transfer will not be admitted any
        more."""
        number = self._numbers.get(pair)
        if number is None:
            yield  # nothing of the network is between them
            return
        self._admitted[number].wait()
        if self.failure is not None:
            raise PeerError(pair[1], self.failure)
        self._note_late(number, self._admitted_s.get(number))
        try:
            yield
            before_release()
        finally:
            self._done.append((number, self._driver.now_s))
            self._wake()

    def _drive(self) -> None:
        """The driver's thread, from the first to the last event of the operation."""
        try:
            self._driver.run(
                {self._wake_reader: lambda: os.read(self._wake_reader, 4096)}, self._pass_on_done
            )
            self.failure = self._driver.failure
        except TestbedError as error:
            self.failure = str(error)
        finally:
            if not self._coordinator.over and self.failure is None:
                self.failure = "the operation was given up"
            for admitted in self._admitted:
                admitted.set()

    def _admit(self, messages: Sequence[tuple[int, int]]) -> None:
        for number, attempt in messages:
            self._admitted_s[number] = self._driver.now_s
            self._attempts[number] = (
                attempt  # a connection lives on: what a cut link took, TCP repeats
            )
            self._admitted[number].set()

    def _pass_on_done(self) -> None:
        while self._done:
            number, ended_s = self._done.popleft()
            self._note_late(number, ended_s)
            self._coordinator.message_done(
                number, self._attempts.get(number, 1), True, self._driver.now_s
            )

    def _note_late(self, number: int, since_s: float | None) -> None:
        if since_s is not None:
            self._late_s[number] = self._late_s.get(number, 0.0) + self._driver.now_s - since_s

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._wake_writer, b".")


class ClientTurns:
    """The order of one compute process's transfers, as the striped-file library asks for it (its port ``Turns``).

    ``admission()``: of the operation under way, None outside one. ``sinks``: I/O nodes in the order of the transfers of
    the compute node ``source``; ``flush`` sends the last acknowledgement to a host now.
    """

    def __init__(
        self,
        admission: Callable[[], TransferAdmission | None],
        source: str,
        sinks: Sequence[str],
        flush: Callable[[str], None],
    ) -> None:
        self._admission, self._source, self._flush = admission, source, flush
        self._sinks = {file_host(sink): sink for sink in sinks}
        self._place = {host: place for place, host in enumerate(self._sinks)}

    def order(self, hosts: Sequence[str], direction: str) -> list[list[str]]:
        """One after another, as the schedule says; outside a scheduled operation all at once."""
        if self._admission() is None:
            return [list(hosts)]
        return [[host] for host in sorted(hosts, key=lambda h: self._place.get(h, -1))]

    def acquire(
        self, host: str, size_bytes: int, direction: str
    ) -> contextlib.AbstractContextManager[None]:
        """The transfer between this process and that I/O node, once it is admitted."""
        admission = self._admission()
        if admission is None:
            return contextlib.nullcontext()
        return admission.transfer(
            (self._source, self._sinks.get(host, host)), lambda: self._flush(host)
        )
