"""The one loop that carries a coordinator's decisions out on real switches, for bulk transfers and striped files alike.

The coordinator (``testbed.bulk.coordinator``) decides, this loop decides nothing. It hands over what happens: a batch
of circuits confirmed by the switches, a port that went down, time that passes, and whatever the caller reads from files
of its own (reports of processes, wake-ups of threads). And it executes what the coordinator answers: changes of
circuits go to the switchboard, messages to be sent to the caller, and the end of the run ends the loop.
"""

import select
import time
from collections.abc import Callable, Mapping, Sequence

from testbed.bulk.coordinator import Action, BulkCoordinator, ChangeCircuits, Send
from testbed.bulk.emulated.switchboard import CircuitSwitchboard
from topologies.network import LinkId

MAX_WAIT_S = 0.1
"""The loop looks at the time this often, whatever happens."""


class CircuitDriver:
    """Drives one run of a coordinator; times are seconds since ``start_s`` on the monotonic clock.

    ``send``: called with (transfer, attempt) of the messages that hold their links now. Afterwards ``failure`` says why
    the run did not come to its end (None where it did), ``lost_links`` which links were cut, ``ended_s`` when it was
    over.
    """

    def __init__(
        self,
        coordinator: BulkCoordinator,
        switchboard: CircuitSwitchboard,
        send: Callable[[Sequence[tuple[int, int]]], None],
        *,
        start_s: float,
    ) -> None:
        self.coordinator = coordinator
        self._switchboard, self._send, self._start_s = switchboard, send, start_s
        self._stopping = False
        self.failure: str | None = None
        self.lost_links: list[LinkId] = []
        self.ended_s = 0.0

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._start_s

    def stop(self) -> None:
        """Leave the loop at its next round (any thread may ask for it)."""
        self._stopping = True

    def run(
        self,
        readers: Mapping[int, Callable[[], object]],
        on_round: Callable[[], None],
        due_s: Callable[[], float] = lambda: float("inf"),
    ) -> None:
        """Run until the coordinator ends it or ``stop`` is called, then wait for the switches' last confirmation.

        ``readers``: file descriptor -> what reads it when it is readable; ``on_round`` is called in every round of the
        loop, ``due_s()`` at the latest. Raises CapabilityError where a switch refuses a rule or does not answer.
        """
        calls = {**readers, **{file: self._reader(dpid) for file, dpid in self._switchboard.files.items()}}
        with select.epoll() as poll:
            for file in calls:
                poll.register(file, select.EPOLLIN)
            self.coordinator.start(0.0)
            self._execute_all()
            while not self.coordinator.over and not self._stopping:
                left_s = min(self.coordinator.deadline_s(), due_s()) - self.now_s
                for file, _ in poll.poll(min(MAX_WAIT_S, max(0.0, left_s))):
                    calls[file]()
                on_round()
                self.coordinator.advance(self.now_s)
                self._execute_all()
        self.ended_s = self.now_s
        self._switchboard.wait()

    def _reader(self, dpid: int) -> Callable[[], None]:
        return lambda: self._on_switch(dpid)

    def _on_switch(self, dpid: int) -> None:
        confirmed, lost = self._switchboard.receive(dpid)
        if confirmed:
            self.coordinator.circuits_changed(self.now_s)
        if lost:
            self.lost_links += lost
            self.coordinator.on_link_failed(lost, self.now_s)

    def _execute_all(self) -> None:
        while actions := self.coordinator.actions():
            for action in actions:
                self._execute(action)

    def _execute(self, action: Action) -> None:
        if isinstance(action, Send):
            self._send(action.messages)
        elif isinstance(action, ChangeCircuits):
            if self._switchboard.changing:
                self._switchboard.wait()  # only where the run ends in the middle of a change
            self._switchboard.start_change(action.set_up, action.tear_down)
            if not self._switchboard.changing and not self.coordinator.over:  # no switch had anything to change
                self.coordinator.circuits_changed(self.now_s)
        else:
            self.failure = action.failure
