"""The coordinator of a bulk run, as a state machine: events and the time come in, actions go out.

It opens time frames, asks the arbiter for circuits, gathers what changes in the switches into batches, repeats what a
cut link broke, and ends the run with a reason where it cannot go on. It knows no socket and no clock. How a run works
as a whole is told in ``testbed.bulk``.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from testbed.bulk.arbiter import ArbiterResult, CircuitArbiter, Deadlock
from testbed.bulk.measurements import TransferRecord
from testbed.bulk.plan import BulkPlan, Path
from topologies import LinkId, label_of, reverse_of

MAX_ATTEMPTS = 5


@dataclass(frozen=True, kw_only=True)
class Circuit:
    """The circuit of one transfer over ``path``. ``own_return``: its acknowledgements need rules of their own too,
    because the standing return rules follow another path. ``part``: of its message."""

    transfer: int
    path: Path
    part: int = 0
    own_return: bool = False


@dataclass(frozen=True, kw_only=True)
class ChangeCircuits:
    """One batch for the switches; to be answered by ``circuits_changed`` when all of them have confirmed it."""

    set_up: tuple[Circuit, ...] = ()
    tear_down: tuple[Circuit, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Send:
    """(transfer, attempt) of messages to send now; an attempt above 1 needs a new connection."""

    messages: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The run is over. ``failure``: why it did not come to its end."""

    failure: str | None = None


Action = ChangeCircuits | Send | Finished
OnDeadlock = Literal["retreat", "fail"]


class BulkCoordinator:
    """Feed it ``begin`` and then what happens; take ``actions()`` after every call.

    ``on_deadlock``: a transfer that closes a circle of waiting ones gives back what it holds and asks again
    ("retreat"), or the run ends ("fail"); either way the circle is reported. ``stall_s``: the run ends when nothing
    arrives for so long.
    """

    def __init__(
        self, plan: BulkPlan, *, on_deadlock: OnDeadlock = "retreat", stall_s: float = 30.0
    ) -> None:
        self.plan = plan
        self._on_deadlock, self._stall_s = on_deadlock, stall_s
        self._arbiter: CircuitArbiter = CircuitArbiter()
        self._records = [
            TransferRecord(transfer=i, path=t.path) for i, t in enumerate(plan.transfers)
        ]
        self._frames = deque(enumerate(plan.frames))
        self._open: set[int] = set()
        self._queues = _by_source(plan)
        self._frame_began: dict[int, float] = {}
        self._frame_ended: dict[int, float] = {}
        self._left_of_frame = [len(frame) for frame in plan.frames]
        self._attempts = [1] * len(plan.transfers)
        self._standing: dict[int, Circuit] = {}
        self._set_up: dict[int, Circuit] = {}
        self._tear_down: list[Circuit] = []
        self._leaving: frozenset[int] = frozenset()
        self._in_change: dict[int, Circuit] | None = None
        self._resting: list[int] = []
        self._dead_links: set[LinkId] = set()
        self._stranded: set[int] = set()
        self._actions: list[Action] = []
        self._progress_s = 0.0
        self._over = False
        self.deadlocks: list[str] = []

    @property
    def over(self) -> bool:
        """Whether ``Finished`` has been given out."""
        return self._over

    @property
    def done(self) -> int:
        """Messages that have arrived."""
        return sum(r.done_s is not None for r in self._records)

    @property
    def frames_open(self) -> int:
        """Time frames that have begun."""
        return len(self._frame_began)

    def records(self) -> tuple[TransferRecord, ...]:
        """What became of each transfer so far."""
        return tuple(
            replace(r, attempts=self._attempts[r.transfer] if r.started_s is not None else 0)
            for r in self._records
        )

    def has_circuit(self, transfer: int) -> bool:
        """Whether rules of the transfer's circuit may be in the switches now, or on their way there or away."""
        changing = self._in_change is not None and (
            transfer in self._in_change or transfer in self._leaving
        )
        return (
            changing
            or transfer in self._standing
            or transfer in self._set_up
            or transfer in self._open
        )

    def frame_times(self) -> tuple[tuple[float, float], ...]:
        """(begin, end) of every time frame that has ended, in order."""
        return tuple((self._frame_began[n], end) for n, end in sorted(self._frame_ended.items()))

    def actions(self) -> tuple[Action, ...]:
        """What is to be done now, in this order; each is given out once."""
        if not self._over and self._in_change is None and (self._set_up or self._tear_down):
            self._in_change, self._set_up = self._set_up, {}
            torn, self._tear_down = tuple(self._tear_down), []
            self._leaving = frozenset(c.transfer for c in torn)
            self._actions.append(
                ChangeCircuits(set_up=tuple(self._in_change.values()), tear_down=torn)
            )
        given, self._actions = tuple(self._actions), []
        return given

    def deadline_s(self) -> float:
        """When ``advance`` is to be called at the latest."""
        return self._progress_s + self._stall_s

    def start(self, now_s: float) -> None:
        """Open the first time frame (without a barrier: let every sender begin)."""
        self._progress_s = now_s
        if self.plan.barrier:
            self._open_next_frame(now_s)
        else:
            for queue in self._queues.values():
                self._next_of(queue, now_s)
        self._end_if_done()

    def circuits_changed(self, now_s: float) -> None:
        """The switches have confirmed the last batch: what was set up in it sends."""
        assert self._in_change is not None
        ready = [c for c in self._in_change.values() if c.transfer in self._open]
        self._in_change = None
        for circuit in ready:
            self._standing[circuit.transfer] = circuit
        self._send([c.transfer for c in ready], now_s)

    def message_done(self, transfer: int, attempt: int, intact: bool, now_s: float) -> None:
        """A whole message has arrived, and its checksum agrees or not. One that is not awaited any more changes
        nothing."""
        if transfer not in self._open or attempt != self._attempts[transfer] or self._over:
            return
        self._progress_s = now_s
        if not intact:
            self._retry_transfer(transfer, now_s, "its checksum was wrong")
            return
        self._records[transfer] = replace(self._records[transfer], done_s=now_s, deliveries=1)
        self._close(transfer, now_s)

    def connection_broke(self, transfer: int, attempt: int, now_s: float) -> None:
        """The sender's connection ended before its message had arrived: it is sent again over a new one."""
        if transfer in self._open and attempt == self._attempts[transfer] and not self._over:
            self._retry_transfer(transfer, now_s, "its connection broke")

    def on_endpoint_failed(self, nodes: Iterable[str], now_s: float) -> None:
        """The process of these nodes has ended: the run fails, and names them."""
        self._progress_s = now_s
        names = sorted(set(nodes))
        waiting = sorted(
            i
            for i in self._open
            if {self.plan.transfers[i].sink, self.plan.transfers[i].source} & set(names)
        )
        under_way = f", in the middle of {self._named(waiting)}" if waiting else ""
        self._fail(f"{', '.join(names)} died {now_s:.2f} s after the start{under_way}")

    def on_link_failed(self, links: Iterable[LinkId], now_s: float) -> None:
        """These links are cut: circuits over them, or with acknowledgements over them, are torn down, and their
        transfers repeated over their alternative path where the plan has one that is whole."""
        self._dead_links |= set(links)
        moved = []
        for index, record in enumerate(self._records):
            if record.done_s is None and index not in self._stranded and self._is_cut(record.path):
                other = self.plan.transfers[index].alternative
                if other is None or self._is_cut(other):
                    self._strand(index, now_s)
                    continue
                self._records[index] = replace(record, path=other)
                if index in self._open:
                    self._withdraw(index, now_s)
                    self._attempts[index] += record.started_s is not None
                    moved.append(index)
        if moved:
            self._withdraw_resting(
                now_s
            )  # the other paths may need links of those that are done in this frame
        for index in moved:
            self._ask(index, now_s)
        self._end_if_done()

    def advance(self, now_s: float) -> None:
        """Time passes. A run in which nothing arrives for ``stall_s`` ends."""
        if now_s >= self.deadline_s() and not self._over:
            self._fail(
                f"no message arrived for {self._stall_s:g} s; waiting for {self._named(sorted(self._open))}"
            )

    def _open_next_frame(self, now_s: float) -> None:
        while self._frames and not self._open:
            number, frame = self._frames.popleft()
            self._frame_began[number] = now_s
            requested = [i for i in frame if i not in self._stranded]
            if not requested:
                self._frame_ended[number] = now_s
            for index in requested:
                self._open.add(index)
            for index in requested:
                self._ask(index, now_s)

    def _next_of(self, queue: deque[int], now_s: float) -> None:
        while queue:
            index = queue.popleft()
            if index in self._stranded:
                continue
            self._frame_began.setdefault(self.plan.frame_of[index], now_s)
            self._open.add(index)
            self._ask(index, now_s)
            return

    def _ask(self, index: int, now_s: float) -> None:
        record = self._records[index]
        if self.plan.switching == "circuit":
            self._apply_arbiter_actions(self._arbiter.request(index, record.path), now_s)
        elif record.path != self.plan.transfers[index].path:
            self._on_granted(index)
        else:
            self._send([index], now_s)

    def _apply_arbiter_actions(self, outcome: ArbiterResult, now_s: float) -> None:
        for index in outcome.granted:
            self._on_granted(index)
        for deadlock in outcome.deadlocks:
            self._break(deadlock, now_s)

    def _break(self, deadlock: Deadlock, now_s: float) -> None:
        parts = [
            f"{self.plan.transfers[i].name} wants {label_of(link)}"
            for i, link in zip(deadlock.waiting, deadlock.links, strict=True)
        ]
        self.deadlocks.append(", ".join(parts))
        if self._on_deadlock == "fail":
            self._fail(f"deadlock {now_s:.2f} s after the start: {self.deadlocks[-1]}")
            return
        retreating = deadlock.waiting[0]
        if self._arbiter.waits_for(retreating) is None:
            return  # another retreat of the same moment has freed it
        self._apply_arbiter_actions(self._arbiter.release(retreating), now_s)
        self._apply_arbiter_actions(
            self._arbiter.request(retreating, self._records[retreating].path), now_s
        )

    def _on_granted(self, index: int) -> None:
        path, planned = self._records[index].path, self.plan.transfers[index]
        self._set_up[index] = Circuit(
            transfer=index, path=path, part=planned.part, own_return=path != planned.path
        )

    def _send(self, indices: list[int], now_s: float) -> None:
        for index in indices:
            self._records[index] = replace(self._records[index], started_s=now_s)
        if indices and not self._over:
            self._actions.append(Send(messages=tuple((i, self._attempts[i]) for i in indices)))

    def _retry_transfer(self, index: int, now_s: float, why: str) -> None:
        if self._attempts[index] >= MAX_ATTEMPTS:
            self._fail(f"{self.plan.transfers[index].name}: {why}, {MAX_ATTEMPTS} times")
            return
        self._attempts[index] += 1
        if index in self._standing or self.plan.switching == "packet":
            self._send([index], now_s)

    def _close(self, index: int, now_s: float) -> None:
        """The transfer is over. In a frame with a barrier circuits stand until the frame ends: one batch for all."""
        self._open.discard(index)
        self._resting.append(index)
        number = self.plan.frame_of[index]
        self._left_of_frame[number] -= 1
        if self._left_of_frame[number] == 0:
            self._frame_ended[number] = now_s
        contended = self.plan.switching == "circuit" and any(
            not self._arbiter.holds_all(i) for i in self._open
        )
        if not (self.plan.barrier and self._open and not contended):
            self._withdraw_resting(now_s)
        if self.plan.barrier:
            if not self._open:
                self._open_next_frame(now_s)
        else:
            self._next_of(self._queues[self.plan.transfers[index].source], now_s)
        self._end_if_done()

    def _withdraw_resting(self, now_s: float) -> None:
        resting, self._resting = self._resting, []
        for index in resting:
            self._withdraw(index, now_s)

    def _withdraw(self, index: int, now_s: float) -> None:
        """Take the transfer's circuit, or its request for one, away."""
        self._set_up.pop(index, None)
        circuit = self._standing.pop(index, None) or (self._in_change or {}).pop(index, None)
        if circuit is not None:
            self._tear_down.append(circuit)
        if self.plan.switching == "circuit" and (
            self._arbiter.holds_all(index) or self._arbiter.waits_for(index)
        ):
            self._apply_arbiter_actions(self._arbiter.release(index), now_s)

    def _strand(self, index: int, now_s: float) -> None:
        """No way is left: the transfer is given up, and named at the end."""
        self._stranded.add(index)
        number = self.plan.frame_of[index]
        if index in self._open:
            self._withdraw(index, now_s)
            self._close(index, now_s)
        else:
            self._left_of_frame[number] -= 1

    def _is_cut(self, path: Path) -> bool:
        return any(
            link in self._dead_links or reverse_of(link) in self._dead_links for link in path
        )

    def _end_if_done(self) -> None:
        if (
            self._open
            or self._over
            or (self._frames if self.plan.barrier else any(self._queues.values()))
        ):
            return
        self._over = True
        failure = None
        if self._stranded:
            cut = ", ".join(map(label_of, sorted(self._dead_links)))
            failure = (
                f"links cut ({cut}) and no other path for {self._named(sorted(self._stranded))}"
            )
        torn = (*self._tear_down, *self._standing.values())
        self._tear_down = []
        self._standing.clear()
        if torn:
            self._actions.append(ChangeCircuits(tear_down=torn))
        self._actions.append(Finished(failure=failure))

    def _fail(self, why: str) -> None:
        if not self._over:
            self._over = True
            self._actions.append(Finished(failure=why))

    def _named(self, indices: list[int]) -> str:
        names = [self.plan.transfers[i].name for i in indices[:4]]
        return ", ".join(names) + (f" and {len(indices) - 4} more" if len(indices) > 4 else "")


def _by_source(plan: BulkPlan) -> dict[str, deque[int]]:
    """Sender -> its transfers in the order of the frames."""
    queues: dict[str, deque[int]] = {}
    for frame in plan.frames:
        for index in frame:
            queues.setdefault(plan.transfers[index].source, deque()).append(index)
    return queues
