"""The coordinator of a bulk run, as a state machine: events and times come in, actions go out.

It opens time frames, requests circuits from the arbiter, gathers changes of the switches into
batches, repeats transfers that a link failure broke, and ends the run with a reason if it cannot
continue. It uses neither sockets nor clocks. ``testbed.bulk`` describes a complete run.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from testbed.bulk.arbiter import ArbiterResult, CircuitArbiter, Deadlock
from testbed.bulk.measurements import TransferRecord
from testbed.bulk.plan import BulkPlan, Path
from topologies import LinkId, label_of, reverse_of

# The run ends with a failure if one transfer has failed this number of times.
MAX_ATTEMPTS = 5
# A message lists up to this number of transfers by name.
_MAX_NAMED = 4


@dataclass(frozen=True, kw_only=True)
class Circuit:
    """The circuit of one transfer.

    Attributes:
        transfer: The index of the transfer.
        path: The links of the circuit.
        part: The part of the message.
        own_return: Whether the acknowledgements need rules too, because the standing return rules
            follow another path.
    """

    transfer: int
    path: Path
    part: int = 0
    own_return: bool = False


@dataclass(frozen=True, kw_only=True)
class ChangeCircuits:
    """One batch of changes for the switches.

    When all switches have confirmed it, ``circuits_changed`` must be called.
    """

    set_up: tuple[Circuit, ...] = ()
    tear_down: tuple[Circuit, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Send:
    """Messages to send now.

    Attributes:
        messages: The transfer and the attempt of each. An attempt above 1 needs a new connection.
    """

    messages: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The end of the run.

    Attributes:
        failure: Why the run did not complete, or None.
    """

    failure: str | None = None


Action = ChangeCircuits | Send | Finished
OnDeadlock = Literal["retreat", "fail"]


class BulkCoordinator:
    """Decides the course of one run.

    The caller calls ``start``, then the methods of events as they occur, and executes ``actions()``
    after every call. Times are seconds since the start of the run.

    Attributes:
        plan: The plan.
        deadlocks: Descriptions of the deadlocks so far.
    """

    def __init__(
        self, plan: BulkPlan, *, on_deadlock: OnDeadlock = "retreat", stall_s: float = 30.0
    ) -> None:
        """Prepare a run.

        Args:
            plan: The plan.
            on_deadlock: What happens when a cycle of waiting transfers closes. ``retreat``: the
                transfer that closed it releases its links and requests them again. ``fail``: the
                run ends.
            stall_s: The run ends if no message arrives for this time.
        """
        self.plan = plan
        self._on_deadlock = on_deadlock
        self._stall_s = stall_s
        self._arbiter: CircuitArbiter = CircuitArbiter()
        self._records = [
            TransferRecord(transfer=i, path=t.path) for i, t in enumerate(plan.transfers)
        ]
        # Time frames that have not begun; only used with a barrier.
        self._frames = deque(enumerate(plan.frames))
        # Transfers of each sender that have not begun; only used without a barrier.
        self._queues = _by_source(plan)
        # Transfers that have begun and are not complete.
        self._open: set[int] = set()
        self._frame_began: dict[int, float] = {}
        self._frame_ended: dict[int, float] = {}
        # The number of transfers of each time frame that are neither complete nor abandoned.
        self._incomplete_in_frame = [len(frame) for frame in plan.frames]
        self._attempts = [1] * len(plan.transfers)
        # Circuits that the switches have confirmed.
        self._standing: dict[int, Circuit] = {}
        # Changes for the next batch.
        self._set_up: dict[int, Circuit] = {}
        self._tear_down: list[Circuit] = []
        # The circuits that the current batch sets up, or None if the switches have confirmed it.
        self._in_change: dict[int, Circuit] | None = None
        # The transfers whose circuits the last batch removes.
        self._leaving: frozenset[int] = frozenset()
        # Complete transfers that still have their circuits.
        self._complete_with_circuit: list[int] = []
        self._dead_links: set[LinkId] = set()
        # Transfers that were abandoned because no path remains.
        self._stranded: set[int] = set()
        self._actions: list[Action] = []
        self._progress_s = 0.0
        self._over = False
        self.deadlocks: list[str] = []

    @property
    def over(self) -> bool:
        """True if ``actions`` has returned ``Finished``, or will."""
        return self._over

    @property
    def done(self) -> int:
        """The number of messages that have arrived."""
        return len([record for record in self._records if record.done_s is not None])

    @property
    def frames_open(self) -> int:
        """The number of time frames that have begun."""
        return len(self._frame_began)

    def records(self) -> tuple[TransferRecord, ...]:
        """Return the course of each transfer so far."""
        records = []
        for record in self._records:
            started = record.started_s is not None
            attempts = self._attempts[record.transfer] if started else 0
            records.append(replace(record, attempts=attempts))
        return tuple(records)

    def has_circuit(self, transfer: int) -> bool:
        """Return whether rules of the transfer's circuit may be in the switches.

        This includes rules that are being installed or removed, or soon will be.
        """
        if self._in_change is not None:
            if transfer in self._in_change or transfer in self._leaving:
                return True
        return transfer in self._standing or transfer in self._set_up or transfer in self._open

    def frame_times(self) -> tuple[tuple[float, float], ...]:
        """Return the begin and the end of every time frame that has ended, in order."""
        return tuple(
            (self._frame_began[number], end_s)
            for number, end_s in sorted(self._frame_ended.items())
        )

    def actions(self) -> tuple[Action, ...]:
        """Return the actions to execute now, in this order. Each is returned once."""
        pending = self._set_up or self._tear_down
        if pending and not self._over and self._in_change is None:
            tear_down = tuple(self._tear_down)
            self._in_change = self._set_up
            self._set_up = {}
            self._tear_down = []
            self._leaving = frozenset(circuit.transfer for circuit in tear_down)
            self._actions.append(
                ChangeCircuits(set_up=tuple(self._in_change.values()), tear_down=tear_down)
            )
        actions = tuple(self._actions)
        self._actions = []
        return actions

    def deadline_s(self) -> float:
        """Return the time by which ``advance`` must be called."""
        return self._progress_s + self._stall_s

    # Events.

    def start(self, now_s: float) -> None:
        """Open the first time frame, or let every sender begin if there is no barrier."""
        self._progress_s = now_s
        if self.plan.barrier:
            self._open_next_frame(now_s)
        else:
            for queue in self._queues.values():
                self._open_next_of(queue, now_s)
        self._end_if_done()

    def circuits_changed(self, now_s: float) -> None:
        """Send over the circuits of the last batch, which the switches have confirmed."""
        assert self._in_change is not None
        ready = []
        for circuit in self._in_change.values():
            if circuit.transfer in self._open:
                self._standing[circuit.transfer] = circuit
                ready.append(circuit.transfer)
        self._in_change = None
        self._send(ready, now_s)

    def message_done(self, transfer: int, attempt: int, intact: bool, now_s: float) -> None:
        """Complete a transfer, or repeat it if its checksum is wrong.

        Reports of earlier attempts and of complete transfers are ignored.

        Args:
            transfer: The transfer whose message has arrived completely.
            attempt: The attempt that has arrived.
            intact: Whether its checksum is right.
            now_s: The current time.
        """
        if transfer not in self._open or attempt != self._attempts[transfer] or self._over:
            return
        self._progress_s = now_s
        if not intact:
            self._retry_transfer(transfer, now_s, "its checksum was wrong")
            return
        self._records[transfer] = replace(self._records[transfer], done_s=now_s, deliveries=1)
        self._close(transfer, now_s)

    def connection_broke(self, transfer: int, attempt: int, now_s: float) -> None:
        """Send a message again, because its connection ended before it had arrived."""
        if transfer in self._open and attempt == self._attempts[transfer] and not self._over:
            self._retry_transfer(transfer, now_s, "its connection broke")

    def on_endpoint_failed(self, nodes: Iterable[str], now_s: float) -> None:
        """End the run, because the process of these nodes has ended."""
        self._progress_s = now_s
        names = sorted(set(nodes))
        interrupted = []
        for index in sorted(self._open):
            transfer = self.plan.transfers[index]
            if transfer.source in names or transfer.sink in names:
                interrupted.append(index)
        failure = f"{', '.join(names)} died {now_s:.2f} s after the start"
        if interrupted:
            failure += f", in the middle of {self._named(interrupted)}"
        self._fail(failure)

    def on_link_failed(self, links: Iterable[LinkId], now_s: float) -> None:
        """Remove the circuits over links that failed, and repeat their transfers on other paths.

        A circuit also fails if its acknowledgements cross the links. A transfer without an intact
        alternative path is abandoned.
        """
        self._dead_links |= set(links)
        moved = []
        for index, record in enumerate(self._records):
            incomplete = record.done_s is None and index not in self._stranded
            if not incomplete or not self._is_cut(record.path):
                continue
            alternative = self.plan.transfers[index].alternative
            if alternative is None or self._is_cut(alternative):
                self._strand(index, now_s)
                continue
            self._records[index] = replace(record, path=alternative)
            if index in self._open:
                self._withdraw(index, now_s)
                if record.started_s is not None:
                    self._attempts[index] += 1
                moved.append(index)
        if moved:
            # The alternative paths may need links of transfers that are complete in this frame.
            self._withdraw_complete(now_s)
        for index in moved:
            self._ask(index, now_s)
        self._end_if_done()

    def advance(self, now_s: float) -> None:
        """End the run if nothing has arrived for ``stall_s``."""
        if now_s >= self.deadline_s() and not self._over:
            self._fail(
                f"no message arrived for {self._stall_s:g} s; waiting for"
                f" {self._named(sorted(self._open))}"
            )

    # Time frames.

    def _open_next_frame(self, now_s: float) -> None:
        """Open the next time frame; continue while a frame has nothing to send."""
        while self._frames and not self._open:
            number, frame = self._frames.popleft()
            self._frame_began[number] = now_s
            requested = [index for index in frame if index not in self._stranded]
            if not requested:
                self._frame_ended[number] = now_s
            # All must be open before the first request, which may complete a cycle.
            self._open.update(requested)
            for index in requested:
                self._ask(index, now_s)

    def _open_next_of(self, queue: deque[int], now_s: float) -> None:
        """Open the next transfer of a sender."""
        while queue:
            index = queue.popleft()
            if index in self._stranded:
                continue
            self._frame_began.setdefault(self.plan.frame_of[index], now_s)
            self._open.add(index)
            self._ask(index, now_s)
            return

    def _close(self, index: int, now_s: float) -> None:
        """Close a transfer, and open what follows.

        With a barrier, circuits remain until the end of the frame, so that one batch removes all,
        unless another transfer waits for their links.
        """
        self._open.discard(index)
        self._complete_with_circuit.append(index)
        self._leave_frame(index, now_s)
        if not (self.plan.barrier and self._open) or self._is_contended():
            self._withdraw_complete(now_s)
        if not self.plan.barrier:
            self._open_next_of(self._queues[self.plan.transfers[index].source], now_s)
        elif not self._open:
            self._open_next_frame(now_s)
        self._end_if_done()

    def _leave_frame(self, index: int, now_s: float) -> None:
        number = self.plan.frame_of[index]
        self._incomplete_in_frame[number] -= 1
        if self._incomplete_in_frame[number] == 0:
            self._frame_ended[number] = now_s

    def _is_contended(self) -> bool:
        """Return whether an open transfer waits for a link."""
        if self.plan.switching != "circuit":
            return False
        return any(not self._arbiter.holds_all(index) for index in self._open)

    def _strand(self, index: int, now_s: float) -> None:
        """Abandon a transfer to which no path is left. It is named at the end of the run."""
        self._stranded.add(index)
        if index in self._open:
            self._withdraw(index, now_s)
            self._close(index, now_s)
        else:
            self._incomplete_in_frame[self.plan.frame_of[index]] -= 1

    # Circuits.

    def _ask(self, index: int, now_s: float) -> None:
        """Request the circuit of a transfer, or send its message at once if it needs none.

        With packet switching, only a transfer on its alternative path needs a circuit.
        """
        path = self._records[index].path
        if self.plan.switching == "circuit":
            self._apply_arbiter_actions(self._arbiter.request(index, path), now_s)
        elif path != self.plan.transfers[index].path:
            # The standing rules follow the planned path.
            self._on_granted(index)
        else:
            self._send([index], now_s)

    def _apply_arbiter_actions(self, outcome: ArbiterResult, now_s: float) -> None:
        for index in outcome.granted:
            self._on_granted(index)
        for deadlock in outcome.deadlocks:
            self._break(deadlock, now_s)

    def _break(self, deadlock: Deadlock, now_s: float) -> None:
        """Break a cycle of waiting transfers: the first one retreats, or the run ends."""
        parts = []
        for index, link in zip(deadlock.waiting, deadlock.links, strict=True):
            parts.append(f"{self.plan.transfers[index].name} waits for {label_of(link)}")
        self.deadlocks.append(", ".join(parts))
        if self._on_deadlock == "fail":
            self._fail(f"deadlock {now_s:.2f} s after the start: {self.deadlocks[-1]}")
            return
        retreating = deadlock.waiting[0]
        if self._arbiter.waits_for(retreating) is None:
            # Another retreat at the same moment has freed its link.
            return
        path = self._records[retreating].path
        self._apply_arbiter_actions(self._arbiter.release(retreating), now_s)
        self._apply_arbiter_actions(self._arbiter.request(retreating, path), now_s)

    def _on_granted(self, index: int) -> None:
        path = self._records[index].path
        planned = self.plan.transfers[index]
        self._set_up[index] = Circuit(
            transfer=index, path=path, part=planned.part, own_return=path != planned.path
        )

    def _withdraw_complete(self, now_s: float) -> None:
        """Remove the circuits of complete transfers."""
        complete = self._complete_with_circuit
        self._complete_with_circuit = []
        for index in complete:
            self._withdraw(index, now_s)

    def _withdraw(self, index: int, now_s: float) -> None:
        """Remove a transfer's circuit, or its request for one."""
        self._set_up.pop(index, None)
        circuit = self._standing.pop(index, None)
        if circuit is None and self._in_change is not None:
            circuit = self._in_change.pop(index, None)
        if circuit is not None:
            self._tear_down.append(circuit)
        if self.plan.switching != "circuit":
            return
        if self._arbiter.holds_all(index) or self._arbiter.waits_for(index):
            self._apply_arbiter_actions(self._arbiter.release(index), now_s)

    def _is_cut(self, path: Path) -> bool:
        """Return whether a link of the path, or of the return path, has failed."""
        for link in path:
            if link in self._dead_links or reverse_of(link) in self._dead_links:
                return True
        return False

    # Sending.

    def _send(self, indices: Sequence[int], now_s: float) -> None:
        for index in indices:
            self._records[index] = replace(self._records[index], started_s=now_s)
        if indices and not self._over:
            messages = tuple((index, self._attempts[index]) for index in indices)
            self._actions.append(Send(messages=messages))

    def _retry_transfer(self, index: int, now_s: float, why: str) -> None:
        if self._attempts[index] >= MAX_ATTEMPTS:
            self._fail(f"{self.plan.transfers[index].name}: {why}, {MAX_ATTEMPTS} times")
            return
        self._attempts[index] += 1
        if index in self._standing or self.plan.switching == "packet":
            self._send([index], now_s)

    # The end of the run.

    def _end_if_done(self) -> None:
        waiting = bool(self._frames) if self.plan.barrier else any(self._queues.values())
        if self._open or self._over or waiting:
            return
        self._over = True
        failure = None
        if self._stranded:
            cut = ", ".join(map(label_of, sorted(self._dead_links)))
            failure = (
                f"links failed ({cut}), and no other path is left for"
                f" {self._named(sorted(self._stranded))}"
            )
        tear_down = (*self._tear_down, *self._standing.values())
        self._tear_down = []
        self._standing.clear()
        if tear_down:
            self._actions.append(ChangeCircuits(tear_down=tear_down))
        self._actions.append(Finished(failure=failure))

    def _fail(self, why: str) -> None:
        if not self._over:
            self._over = True
            self._actions.append(Finished(failure=why))

    def _named(self, indices: Sequence[int]) -> str:
        """Return the names of the first transfers, and the number of the others, as text."""
        text = ", ".join(self.plan.transfers[index].name for index in indices[:_MAX_NAMED])
        if len(indices) > _MAX_NAMED:
            text += f" and {len(indices) - _MAX_NAMED} more"
        return text


def _by_source(plan: BulkPlan) -> dict[str, deque[int]]:
    """Return the transfers of each sender, in the order of the frames."""
    queues: dict[str, deque[int]] = {}
    for frame in plan.frames:
        for index in frame:
            queues.setdefault(plan.transfers[index].source, deque()).append(index)
    return queues
