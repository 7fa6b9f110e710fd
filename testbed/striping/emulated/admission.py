"""Admission of the transfers of a collective access: to time frames, to circuits, or to both.

Clients are threads. A client waits until its transfer is admitted, transfers its bytes, and
releases its links. The coordinator of bulk transfers decides when each transfer is admitted. Its
driver runs in a separate thread (``testbed.bulk.emulated``).
"""

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from sfio_emu.errors import PeerError
from testbed.bulk.coordinator import BulkCoordinator
from testbed.bulk.emulated.switchboard import CircuitDriver, CircuitSwitchboard
from testbed.bulk.plan import BulkPlan, Pair
from testbed.errors import TestbedError
from testbed.striping.placement import encoded_node_name

# The bytes that are read at once from the pipe that wakes the thread.
_PIPE_BYTES = 4096


class TransferAdmission:
    """Admits every transfer of a plan once; a context manager around one operation.

    The other attributes are valid after the operation.

    Attributes:
        failure: Why the operation did not complete, or None.
        deadlocks: The cycles of waiting transfers that were broken.
        frame_times_s: The begin and the end of every time frame.
        thread_delay_s: The delay of the threads of each transfer.
    """

    def __init__(self, plan: BulkPlan, switchboard: CircuitSwitchboard, *, stall_s: float) -> None:
        """Prepare an operation.

        Args:
            plan: The transfers.
            switchboard: The switches.
            stall_s: The operation fails if no transfer ends for this time.
        """
        self._switchboard = switchboard
        self._coordinator = BulkCoordinator(plan, stall_s=stall_s)
        self._numbers: dict[Pair, int] = {
            (t.source, t.sink): i for i, t in enumerate(plan.transfers)
        }
        self._attempts: dict[int, int] = {}
        self._admitted = [threading.Event() for _ in plan.transfers]
        # Transfers that ended, and when. Client threads append, the driver's thread removes.
        self._ended: deque[tuple[int, float]] = deque()
        self._admitted_s: dict[int, float] = {}
        self._delay_s: dict[int, float] = {}
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
        """Descriptions of the cycles of waiting transfers that were broken."""
        return self._coordinator.deadlocks

    @property
    def frame_times_s(self) -> tuple[tuple[float, float], ...]:
        """The begin and the end of every time frame."""
        return self._coordinator.frame_times()

    @property
    def thread_delay_s(self) -> dict[int, float]:
        """The delay of the threads of each transfer.

        This is the time between the admission of the transfer and the start of its client, and
        between its end and the driver's reaction. Busy processors cause it, not the network.
        """
        return dict(self._delay_s)

    @contextlib.contextmanager
    def transfer(self, pair: Pair, before_release: Callable[[], None]) -> Iterator[None]:
        """Wait until the transfer of a pair is admitted, and hold its links during the block.

        Args:
            pair: The compute node and the I/O node.
            before_release: Called at the end of the block, while the circuit still exists.

        Raises:
            PeerError: The operation failed before the transfer was admitted.
        """
        number = self._numbers.get(pair)
        if number is None:
            # Both nodes are the same host.
            yield
            return
        self._admitted[number].wait()
        if self.failure is not None:
            raise PeerError(pair[1], self.failure)
        self._add_delay(number, self._admitted_s.get(number))
        try:
            yield
            before_release()
        finally:
            self._ended.append((number, self._driver.now_s))
            self._wake()

    def _drive(self) -> None:
        """Run the driver from the first to the last event of the operation."""
        try:
            self._driver.run({self._wake_reader: self._clear_pipe}, self._report_ended)
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
            # A later attempt uses the same connection: TCP repeats what a failed link lost.
            self._attempts[number] = attempt
            self._admitted[number].set()

    def _report_ended(self) -> None:
        """Report the transfers that ended to the coordinator."""
        while self._ended:
            number, ended_s = self._ended.popleft()
            self._add_delay(number, ended_s)
            self._coordinator.message_done(
                number, self._attempts.get(number, 1), True, self._driver.now_s
            )

    def _add_delay(self, number: int, since_s: float | None) -> None:
        if since_s is not None:
            delay_s = self._driver.now_s - since_s
            self._delay_s[number] = self._delay_s.get(number, 0.0) + delay_s

    def _wake(self) -> None:
        """Wake the driver's thread."""
        # If the pipe is full, the thread will wake in any case.
        with contextlib.suppress(OSError):
            os.write(self._wake_writer, b".")

    def _clear_pipe(self) -> None:
        os.read(self._wake_reader, _PIPE_BYTES)


class ClientTurns:
    """The order of the transfers of one compute process, as the port ``Turns`` of the library."""

    def __init__(
        self,
        admission: Callable[[], TransferAdmission | None],
        source: str,
        sinks: Sequence[str],
        flush: Callable[[str], None],
    ) -> None:
        """Set the order of one process.

        Args:
            admission: Returns the admission of the current operation, or None outside operations.
            source: The compute node.
            sinks: The I/O nodes in the order of the process's transfers.
            flush: Sends the pending acknowledgement to a host at once.
        """
        self._admission = admission
        self._source = source
        self._flush = flush
        self._sinks = {encoded_node_name(sink): sink for sink in sinks}
        self._position_of = {host: position for position, host in enumerate(self._sinks)}

    def order(self, hosts: Sequence[str], direction: str) -> list[list[str]]:
        """Return the hosts one by one in the order of the transfers.

        Outside a scheduled operation, all hosts are one group.
        """
        if self._admission() is None:
            return [list(hosts)]
        return [[host] for host in sorted(hosts, key=self._position)]

    def acquire(
        self, host: str, size_bytes: int, direction: str
    ) -> contextlib.AbstractContextManager[None]:
        """Return a context that waits until the transfer with the host is admitted."""
        admission = self._admission()
        if admission is None:
            return contextlib.nullcontext()
        pair = (self._source, self._sinks.get(host, host))
        return admission.transfer(pair, partial(self._flush, host))

    def _position(self, host: str) -> int:
        """Return the position of the transfer with a host; hosts without transfer come first."""
        return self._position_of.get(host, -1)
