"""Non-Blocking Adaptive Cycles in the reference engine (document 003, 4.2): detection, identification, gradual recovery.

The numbers in comments are the decisions listed in docs/workloads/interconnect.md; the compiled engine's own text is nac_steps.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from testbed.interconnect.compiled.kernel_state import (
    BLOCKED,
    ENDED,
    ID_MASK,
    IDENTIFICATION,
    IDENTIFIED,
    MAX_CYCLE,
    MOVED,
    NAC_COUNTERS,
    NEVER,
    NONE,
    RECOVERED,
    RECOVERY,
    RESERVED,
    RETRY,
    SIGNALS,
)

if TYPE_CHECKING:
    from testbed.interconnect.reference.reference_engine import ReferenceEngine
    from testbed.interconnect.reference.reference_parts import Buffer, Slot


@dataclass(eq=False)
class Probe:
    """An identification packet: the input (by its link) and output that it is about, and the inputs it has been at (7)."""

    origin: int
    out: int
    path: tuple[int, ...]


@dataclass(eq=False)
class Signal:
    """A recovery signal with the credit of a freed slot (10); ``place``: the next input of the path that it names."""

    path: tuple[int, ...]
    place: int
    slot: Slot


class Nac:
    """What routers remember: blocked inputs, slots kept for a cycle, why local injection is stopped."""

    def __init__(self, engine: ReferenceEngine, log_length: int) -> None:
        self.engine, self.ports, self.options = engine, engine.ports, engine.options
        self.blocked: set[int] = set()
        self.timers: set[int] = set()
        self.kept: dict[int, int] = {}
        self.stopped = [0] * self.ports.routers
        self.probes: dict[int, Probe] = {}
        self.signals: dict[int, Signal] = {}
        self.made_probes = self.made_signals = 0
        self.counters = dict.fromkeys(NAC_COUNTERS, 0)
        self.log_length = log_length
        self.timeline: list[tuple[int, int, int, int]] = []

    def log(self, kind: int, link: int) -> None:
        if len(self.timeline) < self.log_length:
            self.timeline.append((self.engine.now, kind, int(self.ports.link_to[link]), link))

    def input_of(self, link: int) -> Buffer:
        return self.engine.behind(link, 0)

    def spare_of(self, link: int) -> Buffer:
        return self.engine.buffers[self.ports.spare_queue + link]

    def inputs_of(self, router: int) -> list[int]:
        found: list[int] = self.ports.inputs[
            self.ports.input_first[router] : self.ports.input_first[router + 1]
        ].tolist()
        return found

    def wanted(self, link: int) -> int:
        """The link between routers that this input's head asks for (local outputs always sink, 14)."""
        channel = self.input_of(link).wants
        if channel == NONE:
            return NONE
        out = self.engine.link_of(channel)
        return out if self.ports.link_to[out] >= 0 else NONE

    def room_behind(self, link: int) -> int:
        """cap - size of an output's logic buffer (3): its output buffer, and the input after the link by its credits."""
        room = self.engine.behind(link, 0).room(self.engine.now)
        if self.ports.two_stages:
            own = self.engine.behind(self.ports.links + link, 0)
            room += own.slots - own.held
        return room

    def is_full(self, link: int) -> bool:
        """4.3 (2)."""
        buffer = self.input_of(link)
        reading = self.engine.read_until[buffer.reader] > self.engine.now
        return bool(buffer.here) and not reading and len(buffer.here) == buffer.slots

    def is_blocked(self, link: int) -> bool:
        """4.1 to 4.3."""
        return (
            self.is_full(link)
            and self.wanted(link) != NONE
            and self.room_behind(self.wanted(link)) <= self.options.slack
        )

    def may_go(self, buffer: Buffer) -> bool:
        """Whether the buffer's head may ask: stop_fw for local inputs, stop_st where a slot is kept for the cycle (6)."""
        ports, channel = self.ports, buffer.wants
        if buffer.router == NONE or (ports.two_stages and channel < ports.links):
            return True
        if buffer.number < ports.links * ports.lanes:
            own = buffer.number // ports.lanes
            if self.options.stop_local and ports.link_from[own] < 0 and self.stopped[buffer.router] > 0:
                return False
            if not self.options.own_request and self.spare_of(own).held:
                return False
        link = self.engine.link_of(channel)
        holder = self.kept.get(link, NONE)
        if holder == NONE or ports.link_to[link] < 0 or buffer in (self.input_of(holder), self.spare_of(holder)):
            return True
        return self.room_behind(link) > 1

    def granted(self, channel: int, buffer: Buffer) -> None:
        """A kept slot is used; a drained avoidance buffer lets its router go on (11)."""
        if not self.ports.two_stages or channel >= self.ports.links:
            link = self.engine.link_of(channel)
            holder = self.kept.get(link, NONE)
            if holder != NONE and buffer in (self.input_of(holder), self.spare_of(holder)):
                del self.kept[link]
        if buffer.number >= self.ports.spare_queue:
            own = buffer.number - self.ports.spare_queue
            self.start_local(int(self.ports.link_to[own]))
            self.engine.wake(self.input_of(own).wants, self.engine.now)

    def forget_slot(self, link: int) -> None:
        self.kept.pop(link, None)

    def start_local(self, router: int) -> None:
        self.stopped[router] -= 1
        if self.stopped[router] == 0:
            for i in range(int(self.ports.hosts_first[router]), int(self.ports.hosts_first[router + 1])):
                uplink = int(self.ports.uplink[self.ports.hosts_of[i]])
                self.engine.wake(self.input_of(uplink).wants, self.engine.now)

    def look_round(self, router: int) -> None:
        """Which inputs are blocked now (1); those newly so identify themselves."""
        for link in self.inputs_of(router):
            blocked = self.is_blocked(link)
            if blocked and link not in self.blocked:
                self.blocked.add(link)
                self.stopped[router] += 1
                self.counters["blocked"] += 1
                self.log(BLOCKED, link)
                self.send_probe(Probe(link, self.wanted(link), (link,)))
                self.start_timer(link)
            elif not blocked and link in self.blocked:
                self.blocked.discard(link)
                self.start_local(router)

    def start_timer(self, link: int) -> None:
        if link not in self.timers:
            self.timers.add(link)
            self.engine.at(self.engine.now + self.options.retry, RETRY, link)

    def send_probe(self, probe: Probe) -> None:
        number = self.made_probes & ID_MASK
        self.made_probes += 1
        self.probes[number] = probe
        self.counters["identification_packets"] += 1
        self.engine.at(self.engine.now + self.options.control, IDENTIFICATION, number)

    def hear_probe(self, number: int) -> int:
        """An identification packet at the router before the last link of its path: its own, or one to repeat (4)."""
        probe = self.probes.pop(number)
        link = probe.path[-1]
        router = int(self.ports.link_from[link])
        if link == probe.out and self.ports.link_to[probe.origin] == router:
            if self.is_blocked(probe.origin) and self.wanted(probe.origin) == probe.out:
                self.close_cycle(probe)
            return router
        for other in self.inputs_of(router):
            if self.wanted(other) == link and self.is_blocked(other):
                free = not self.spare_of(other).held
                looped = other in probe.path or len(probe.path) >= MAX_CYCLE - 1
                if (free or self.options.repeat_when_full) and not looped:
                    self.send_probe(Probe(probe.origin, probe.out, (*probe.path, other)))
        return router

    def close_cycle(self, probe: Probe) -> None:
        """move(a, d), unless d is in use (9) or the tail is still arriving (12); then the signal."""
        self.counters["identified"] += 1
        self.log(IDENTIFIED, probe.origin)
        head = self.input_of(probe.origin).here[0]
        if self.spare_of(probe.origin).held or head.tail > self.engine.now:
            return
        self.counters["moved"] += 1
        self.log(MOVED, probe.origin)
        number = self.made_signals % SIGNALS
        self.made_signals += 1
        self.move_aside(probe.origin, probe.path, 0, number)

    def move_aside(self, link: int, path: tuple[int, ...], place: int, number: int) -> None:
        buffer, spare, engine = self.input_of(link), self.spare_of(link), self.engine
        engine.withdraw(buffer)
        spare.here.append(buffer.here.popleft())
        self.signals[number] = Signal(path, place + 1, buffer.leave_slot(NEVER))
        self.stopped[int(self.ports.link_to[link])] += 1
        for queue in (spare, buffer):
            if queue.here:
                engine.ask(queue)
                engine.wake(queue.wants, engine.now)
        self.counters["signals"] += 1
        engine.at(engine.now + self.options.control, RECOVERY, number)

    def hear_signal(self, number: int) -> int:
        """4.4 to 4.7 at the router before the link whose slot was freed (10)."""
        signal, engine = self.signals.pop(number), self.engine
        out, link = signal.path[signal.place - 1], signal.path[signal.place % len(signal.path)]
        signal.slot.tick = engine.now
        spare = self.spare_of(link)
        wants = self.wanted(link) == out and self.is_full(link) and self.room_behind(out) <= 1
        goes_on = signal.place < len(signal.path) and bool(self.options.recovery_run)
        moved = wants and goes_on and not spare.held and self.input_of(link).here[0].tail <= engine.now
        spare_wants = spare.held > 0 and spare.wants == int(self.ports.entry[out])
        if moved or wants or spare_wants:
            if self.options.reserve and self.kept.get(out, link) == link:
                self.kept[out] = link
                self.counters["reserved"] += 1
                self.log(RESERVED, link)
        else:
            self.counters["normal"] += 1
            self.log(ENDED, link)
        if moved:
            self.counters["recovery_moved"] += 1
            self.log(RECOVERED, link)
            self.move_aside(link, signal.path, signal.place, number)
        engine.wake(out, engine.now)
        return int(self.ports.link_from[out])

    def try_again(self, link: int) -> None:
        """The retry timer (8); where nothing has moved for long, the watchdog stops the run instead."""
        engine = self.engine
        idle = engine.now - engine.last_move > self.options.watchdog
        if engine.next_message == len(engine.messages) and idle:
            engine.stopped = "no-progress"
            return
        self.timers.discard(link)
        if link in self.blocked and self.is_blocked(link):
            self.counters["retries"] += 1
            self.send_probe(Probe(link, self.wanted(link), (link,)))
            self.start_timer(link)
