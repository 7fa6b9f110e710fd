"""NAC, non-blocking adaptive cycles, in the reference engine (Zarza 2011, section 4.2).

Detection of blocked inputs, the throttle, identification of cycles and gradual recovery, as
``testbed/interconnect/compiled/nac`` tells them; written apart from it. Numbers in brackets are the decisions listed in
docs/workloads/nac_decisions.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from testbed.interconnect.parameters import MAX_CYCLE
from testbed.interconnect.results import NAC_EVENTS
from testbed.interconnect.static_paths import NONE
from tests.oracles.interconnect.reference_engine import Avoidance, ReferenceEngine
from tests.oracles.interconnect.reference_parts import NEVER, Buffer, EventKind, Slot

SIGNALS = 4096
"""Recovery signals are numbered anew after so many."""
THE_CYCLE = -2
"""Holder of a freed slot while the router finds out which of its inputs is on the cycle (22)."""
COUNTED = (
    "blocked", "identification_packets", "identified", "moved", "recovery_moved", "reserved", "normal", "retries",
    "signals",
)  # fmt: skip


@dataclass(eq=False)
class IdentificationPacket:
    """The input (by its link) and output that it is about, and the inputs it has been at (7); ``recovery``: of a router
    that a recovery signal has reached (22)."""

    origin: int
    out: int
    path: tuple[int, ...]
    recovery: bool = False


@dataclass(eq=False)
class RecoverySignal:
    """It carries the credit of a freed slot (10); ``place``: the next input of the path that it names."""

    path: tuple[int, ...]
    place: int
    slot: Slot


class Nac(Avoidance):
    """What routers remember: blocked inputs, slots reserved for a cycle, reasons to throttle the injection of their
    hosts."""

    def __init__(self, engine: ReferenceEngine, log_length: int) -> None:
        self.engine, self.layout, self.links, self.options = (
            engine,
            engine.layout,
            engine.links,
            engine.options.nac,
        )
        self.routers, self.hosts = engine.model.routers, engine.hosts
        self.blocked: dict[int, int] = {}
        self.timers: set[int] = set()
        self.reserved: dict[int, int] = {}
        self.throttled = [0] * self.layout.routers
        self.packets: dict[int, IdentificationPacket] = {}
        self.signals: dict[int, RecoverySignal] = {}
        self.made_packets = self.made_signals = 0
        self.counters = dict.fromkeys(COUNTED, 0)
        self.log_length = log_length
        self.timeline: list[tuple[int, int, int, int]] = []

    def happen(self, kind: int, number: int) -> int:
        """One of NAC's events: detection, a control packet that arrives, or a retry timer."""
        if kind == EventKind.DETECTION:
            self.detect(number)
        elif kind == EventKind.IDENTIFICATION:
            return self.receive_identification(number)
        elif kind == EventKind.RECOVERY:
            return self.receive_recovery_signal(number)
        else:
            self.retry(number)
        return NONE

    def changed(self, router: int) -> None:
        """Detection is due at a router when all that moves at this tick has moved (1)."""
        if router != NONE:
            self.engine.at(self.engine.now, EventKind.DETECTION, router)

    def woken(self, entry: int) -> None:
        """Room behind a link may be what its way into the output buffer waited for."""
        self.engine.wake(entry, self.engine.now)

    def cable_changed(self, link: int) -> None:
        """What was reserved behind a link of the cable is so no more."""
        self.reserved.pop(link, None)

    def ways_changed(self) -> None:
        """A cable has failed, or works again: escaped messages at the heads of inputs leave out what is left of their
        escape paths (23)."""
        engine, direct = self.engine, 2
        if not self.options.ask_anew:
            return
        for buffer in (self.input_of(link) for link in range(self.layout.links)):
            packet = buffer.here[0] if buffer.here else None
            if (
                buffer.router == NONE
                or buffer.wants == NONE
                or packet is None
                or not packet.is_data
            ):
                continue
            if packet.escapes and packet.header < direct:
                engine.withdraw(buffer)
                packet.header = direct
                engine.ask(buffer)
                engine.wake(buffer.wants, engine.now)
        for out, holder in list(self.reserved.items()):
            if (
                holder != THE_CYCLE
                and self.wanted(holder) != out
                and not self.put_aside_for(holder, out)
            ):
                del self.reserved[out]
                engine.wake(out, engine.now)
                engine.wake(int(self.links.entry[out]), engine.now)
        for router in range(self.layout.routers):
            self.changed(router)

    def log(self, event: str, link: int) -> None:
        """A line of the timeline, by the event's name in results."""
        if len(self.timeline) < self.log_length:
            self.timeline.append(
                (self.engine.now, NAC_EVENTS.index(event), int(self.links.end[link]), link)
            )

    def input_of(self, link: int) -> Buffer:
        """The input buffer after a link: a."""
        return self.engine.behind(link, 0)

    def avoidance_of(self, link: int) -> Buffer:
        """The deadlock avoidance buffer of that input: d."""
        return self.engine.buffers[self.layout.avoidance_queue + link]

    def avoidance_is_free(self, link: int) -> bool:
        """No packet is in d; with ``strict_slot``, nor is the tail of the last one (17)."""
        avoidance = self.avoidance_of(link)
        leaving = self.engine.read_until[avoidance.reader] > self.engine.now
        return not avoidance.held and not (self.options.strict_slot and leaving)

    def inputs_of(self, router: int) -> list[int]:
        """Links from other routers."""
        first = self.routers.input_first
        found: list[int] = self.routers.inputs[first[router] : first[router + 1]].tolist()
        return found

    def wanted(self, link: int) -> int:
        """The link between routers that this input's head asks for (local outputs always sink, 14)."""
        channel = self.input_of(link).wants
        if channel == NONE:
            return NONE
        out = self.engine.link_of(channel)
        return out if self.links.end[out] >= 0 else NONE

    def room_behind(self, link: int) -> int:
        """cap - size of an output's logic buffer (3): its output buffer, and the input after the link by its
        credits."""
        room = self.engine.behind(link, 0).room(self.engine.now)
        if self.layout.output_buffers:
            own = self.engine.behind(self.layout.links + link, 0)
            room += own.slots - own.held
        return room

    def is_full(self, link: int) -> bool:
        """True when the heads of as many packets as the input has slots are there, and none is being transferred (2).

        Condition 4.3 of Zarza 2011.
        """
        buffer = self.input_of(link)
        reading = self.engine.read_until[buffer.reader] > self.engine.now
        return bool(buffer.here) and not reading and len(buffer.here) == buffer.slots

    def is_blocked(self, link: int) -> bool:
        """True when the input is full (4.3), asks for a link between routers (4.2), and every slot behind that is taken
        (4.1)."""
        return (
            self.is_full(link)
            and self.wanted(link) != NONE
            and self.room_behind(self.wanted(link)) <= self.options.slack
        )

    def may_request(self, buffer: Buffer) -> bool:
        """NAC's throttle: stop_fw for inputs from hosts, stop_st where the free slot is reserved for the cycle (6)."""
        layout, channel = self.layout, buffer.wants
        if buffer.router == NONE or (layout.output_buffers and channel < layout.links):
            return True
        if buffer.number < layout.links * layout.lanes:
            own = buffer.number // layout.lanes
            if (
                self.options.stop_local
                and self.links.start[own] < 0
                and self.throttled[buffer.router] > 0
            ):
                return False
            if not self.options.own_request and self.avoidance_of(own).held:
                return False
        if (
            self._is_notice(buffer)
            and self.options.stop_local
            and self.throttled[buffer.router] > 0
        ):
            return False
        link = self.engine.link_of(channel)
        if (
            self.options.stop_output
            and buffer.number < layout.avoidance_queue
            and self.is_stopped(link)
        ):
            return False
        holder = self.reserved.get(link, NONE)
        if holder == NONE or self.links.end[link] < 0 or self.holds(holder, buffer):
            return True
        return self.room_behind(link) > 1

    def _is_notice(self, buffer: Buffer) -> bool:
        """Whether it holds a router's own notices, which go into the buffers of messages where ACKs have no own."""
        layout = self.layout
        return (
            layout.lanes == layout.data_lanes
            and layout.notice_queue <= buffer.number < layout.avoidance_queue
        )

    def is_stopped(self, out: int) -> bool:
        """stop_st: an input of the router before the link was blocked for it when last looked at (21)."""
        start = int(self.links.start[out])
        return start >= 0 and any(
            self.blocked.get(link, NONE) == out for link in self.inputs_of(start)
        )

    def holds(self, holder: int, buffer: Buffer) -> bool:
        """Whether the buffer is the input, or its avoidance buffer, that a slot is reserved for."""
        return holder != THE_CYCLE and buffer in (self.input_of(holder), self.avoidance_of(holder))

    def granted(self, channel: int, buffer: Buffer) -> None:
        """A reserved slot is used; an avoidance buffer that is empty again is a reason less to throttle (11)."""
        if not self.layout.output_buffers or channel >= self.layout.links:
            link = self.engine.link_of(channel)
            holder = self.reserved.get(link, NONE)
            if holder != NONE and self.holds(holder, buffer):
                del self.reserved[link]
        if buffer.number >= self.layout.avoidance_queue:
            own = buffer.number - self.layout.avoidance_queue
            self.resume_injection(int(self.links.end[own]))
            self.engine.wake(self.input_of(own).wants, self.engine.now)

    def resume_injection(self, router: int) -> None:
        """One reason less to throttle the router's hosts; with none left, their messages and ACKs ask again."""
        self.throttled[router] -= 1
        if self.throttled[router] == 0:
            first = self.routers.host_first
            for host in self.routers.hosts[first[router] : first[router + 1]].tolist():
                for lane in range(self.layout.lanes):
                    self.engine.wake(
                        self.engine.behind(int(self.hosts.uplink[host]), lane).wants,
                        self.engine.now,
                    )
            self.engine.wake(
                self.engine.buffers[self.layout.notice_queue + router].wants, self.engine.now
            )

    def detect(self, router: int) -> None:
        """Which inputs are blocked now (1); those newly so throttle the hosts and send identification packets."""
        for link in self.inputs_of(router):
            blocked, known = self.is_blocked(link), self.blocked.get(link, NONE)
            if blocked:
                self.blocked[link] = self.wanted(link)
            if blocked and known == NONE:
                self.throttled[router] += 1
                self.counters["blocked"] += 1
                self.log("blocked", link)
                self.send(IdentificationPacket(link, self.wanted(link), (link,)))
                self.start_timer(link)
            elif not blocked and known != NONE:
                del self.blocked[link]
                self.resume_injection(router)
            if self.options.stop_output and known not in (NONE, self.blocked.get(link, NONE)):
                self.engine.wake(int(self.links.entry[known]), self.engine.now)

    def start_timer(self, link: int) -> None:
        """The retry timer of a blocked input (8), where none runs."""
        if link not in self.timers:
            self.timers.add(link)
            self.engine.at(self.engine.now + self.options.retry, EventKind.RETRY, link)

    def send(self, packet: IdentificationPacket) -> None:
        """Send an identification packet up the last link of its path."""
        number = self.made_packets
        self.made_packets += 1
        self.packets[number] = packet
        self.counters["identification_packets"] += 1
        self.engine.at(self.engine.now + self.options.control, EventKind.IDENTIFICATION, number)

    def receive_identification(self, number: int) -> int:
        """An identification packet at the router before the last link of its path: its own, or one to repeat (4)."""
        packet = self.packets.pop(number)
        link = packet.path[-1]
        router = int(self.links.start[link])
        if link == packet.out and self.links.end[packet.origin] == router:
            if packet.recovery:
                if self.may_recover(packet.origin, link):
                    self.recover_input(packet.origin, link)
            elif self.is_blocked(packet.origin) and self.wanted(packet.origin) == packet.out:
                self.close_cycle(packet)
            return router
        for other in self.inputs_of(router):
            if self.is_on_full_cycle(other, link):
                looped = other in packet.path or len(packet.path) >= MAX_CYCLE - 1
                if (self.avoidance_is_free(other) or self.options.repeat_when_full) and not looped:
                    self.send(replace(packet, path=(*packet.path, other)))
        return router

    def is_on_full_cycle(self, link: int, out: int) -> bool:
        """The triggering conditions hold at the input for that output; identified anew (22), or the recovery
        conditions, or a packet put aside waits for it."""
        if self.wanted(link) == out and self.is_blocked(link):
            return True
        return bool(self.options.identify_anew) and (
            self.may_recover(link, out) or self.put_aside_for(link, out)
        )

    def may_recover(self, link: int, out: int) -> bool:
        """Conditions 4.4 to 4.7 at an input, where the cycle behind the output is being identified anew (22)."""
        return self.reserved.get(out, NONE) == THE_CYCLE and self.meets_recovery(link, out)

    def meets_recovery(self, link: int, out: int) -> bool:
        """The input asks for the output (4.5) and is full (4.6), and behind the output no more than the freed slot is
        free (4.4)."""
        return self.wanted(link) == out and self.is_full(link) and self.room_behind(out) <= 1

    def put_aside_for(self, link: int, out: int) -> bool:
        """The input's avoidance buffer holds a packet that asks for the output."""
        avoidance = self.avoidance_of(link)
        return avoidance.held > 0 and avoidance.wants == int(self.links.entry[out])

    def close_cycle(self, packet: IdentificationPacket) -> None:
        """move(a, d), unless d is in use (9) or the tail is still arriving (12); then the signal."""
        self.counters["identified"] += 1
        self.log("identified", packet.origin)
        head = self.input_of(packet.origin).here[0]
        if not self.avoidance_is_free(packet.origin) or head.tail > self.engine.now:
            return
        self.counters["moved"] += 1
        self.log("moved", packet.origin)
        number = self.made_signals % SIGNALS
        self.made_signals += 1
        self.move(
            packet.origin,
            (packet.origin,) if self.options.identify_anew else packet.path,
            0,
            number,
        )

    def move(self, link: int, path: tuple[int, ...], place: int, number: int) -> None:
        """move(a, d) at the input; the freed slot goes up the link with the recovery signal (10)."""
        buffer, avoidance, engine = self.input_of(link), self.avoidance_of(link), self.engine
        engine.withdraw(buffer)
        avoidance.here.append(buffer.here.popleft())
        self.signals[number] = RecoverySignal(path, place + 1, buffer.leave_slot(NEVER))
        self.throttled[int(self.links.end[link])] += 1
        for queue in (avoidance, buffer):
            if queue.here:
                engine.ask(queue)
                engine.wake(queue.wants, engine.now)
        self.counters["signals"] += 1
        engine.at(engine.now + self.options.control, EventKind.RECOVERY, number)

    def receive_recovery_signal(self, number: int) -> int:
        """Conditions 4.4 to 4.7 at the router before the link whose slot was freed (10)."""
        signal, engine = self.signals.pop(number), self.engine
        out, link = signal.path[signal.place - 1], signal.path[signal.place % len(signal.path)]
        signal.slot.tick = engine.now
        if self.options.identify_anew:
            self.identify_anew(out)
            engine.wake(out, engine.now)
            return int(self.links.start[out])
        wants = self.meets_recovery(link, out)
        goes_on = signal.place < len(signal.path) and bool(self.options.recovery_run)
        moved = (
            wants
            and goes_on
            and self.avoidance_is_free(link)
            and self.input_of(link).here[0].tail <= engine.now
        )
        if moved or wants or self.put_aside_for(link, out):
            if self.options.reserve and self.reserved.get(out, link) == link:
                self.reserved[out] = link
                self.counters["reserved"] += 1
                self.log("reserved", link)
        else:
            self.counters["normal"] += 1
            self.log("normal", link)
        if moved:
            self.counters["recovery_moved"] += 1
            self.log("recovery-moved", link)
            self.move(link, signal.path, signal.place, number)
        engine.wake(out, engine.now)
        return int(self.links.start[out])

    def identify_anew(self, out: int) -> None:
        """A recovery signal for the output: a packet put aside there uses the slot; else each input at which conditions
        4.4 to 4.7 hold sends an identification packet, and the slot waits for the cycle until one is back, or a retry
        time long (4.2.3; 22)."""
        inputs = self.inputs_of(int(self.links.start[out]))
        waiting = [link for link in inputs if self.put_aside_for(link, out)]
        full = [link for link in inputs if self.meets_recovery(link, out)]
        if waiting or (full and (out in self.reserved or not self.options.recovery_run)):
            holder = (waiting or full)[0]
            if self.reserved.get(out, holder) == holder:
                self.reserved[out] = holder
                self.counters["reserved"] += 1
                self.log("reserved", holder)
        elif full:
            self.reserved[out] = THE_CYCLE
            self.engine.at(
                self.engine.now + self.options.retry, EventKind.RETRY, self.layout.links + out
            )
            for link in full:
                self.send(IdentificationPacket(link, out, (link,), recovery=True))
        else:
            self.counters["normal"] += 1
            self.log("normal", out)

    def recover_input(self, link: int, out: int) -> None:
        """The input is on the cycle: the slot is its own from now on; its head goes to the avoidance buffer, and the
        signal on."""
        self.counters["identified"] += 1
        self.log("identified", link)
        self.reserved[out] = link
        if self.avoidance_is_free(link) and self.input_of(link).here[0].tail <= self.engine.now:
            self.counters["recovery_moved"] += 1
            self.log("recovery-moved", link)
            number = self.made_signals % SIGNALS
            self.made_signals += 1
            self.move(link, (link,), 0, number)
        self.engine.wake(int(self.links.entry[out]), self.engine.now)

    def give_slot_up(self, out: int) -> None:
        """No identification packet has come back: normal work begins again (22)."""
        if self.reserved.get(out, NONE) == THE_CYCLE:
            del self.reserved[out]
            self.counters["normal"] += 1
            self.log("normal", out)
            self.engine.wake(int(self.links.entry[out]), self.engine.now)

    def retry(self, link: int) -> None:
        """The retry timer of an input (8), or (from ``links`` on) of an output whose slot waits (22); where nothing has
        moved for long, the watchdog stops the run instead."""
        engine = self.engine
        idle = engine.now - engine.last_move > engine.options.watchdog
        if engine.next_message == len(engine.messages) and idle:
            engine.stopped = "no-progress"
            return
        if link >= self.layout.links:
            self.give_slot_up(link - self.layout.links)
            return
        self.timers.discard(link)
        if link in self.blocked and self.is_blocked(link):
            self.counters["retries"] += 1
            self.send(IdentificationPacket(link, self.wanted(link), (link,)))
            self.start_timer(link)
