"""One software router: finite queues, credits, a crossbar, and NAC next to them. Frames come in, frames go out; no
socket, no clock.

Theory of operation
------------------- A router has an input buffer and an output buffer of so many packets at every port, an avoidance
buffer of one packet next to each input buffer (NAC), and an input buffer for its own host, filled from a queue without
end. It sends a packet over a cable only with a credit, which stands for a free slot of the input buffer at the other
end, and gets the credit back when the packet leaves that buffer. So nothing is ever dropped: where there is no room,
packets wait, and where they wait in a cycle, permanently.

``receive`` takes a frame, ``offer`` a message of the host, ``advance`` does all that can be done by now; ``outgoing``
are the frames to send, ``log`` what came for the host. Time is the caller's, in seconds.
"""

from collections import Counter, deque
from dataclasses import dataclass

from testbed.routers.plan import RouterPlan
from testbed.routers.wire import (
    CREDIT_FRAME,
    DataPacket,
    Identification,
    Recovery,
    WireError,
    decode,
)

NEVER = float("inf")
Arrival = tuple[int, int, int, int, float, float]
"""Of a message: source, destination, number, hops, latency from its making in seconds (queue included), and when it
arrived."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What a router holds at a moment. ``wants``: the port that the head of each input asks for (None: none, or the
    host)."""

    router: int
    inputs: tuple[int, ...]
    wants: tuple[int | None, ...]
    outputs: tuple[int, ...]
    credits: tuple[int, ...]
    avoidance: tuple[int, ...]


class Router:
    """See the module. Ports are 0 to ``ports - 1``; ``ports`` itself is the host's."""

    def __init__(self, plan: RouterPlan, number: int) -> None:
        self.plan, self.number, self.slots = plan, number, plan.slots
        self.ports = ports = len(plan.ports[number])
        self.routes = plan.routes_of(number)
        self.inputs: list[deque[DataPacket]] = [deque() for _ in range(ports + 1)]
        self.outputs: list[deque[DataPacket]] = [deque() for _ in range(ports)]
        self.aside: list[DataPacket | None] = [None] * ports
        self.credits = [plan.slots] * ports
        self.busy_until = [0.0] * ports
        self.turn = [0] * ports
        self.source_queue: deque[DataPacket] = deque()
        self.outgoing: list[tuple[int, bytes]] = []
        self.log: list[Arrival] = []
        self.moves = 0
        """Packets moved, within the router or out of it."""
        self.done: Counter[str] = Counter()
        """What NAC did (``testbed.routers.nac``)."""
        self.now_s = 0.0

    def inject(self, packet: DataPacket) -> None:
        """A message of the router's own host, which waits in front of the router for as long as it takes."""
        self.source_queue.append(packet)

    def receive(self, port: int, frame: bytes, now_s: float) -> None:
        """A frame that came in at the port. Raises WireError for one that cannot be, a packet without a slot
        included."""
        self.now_s = now_s
        message = decode(frame)
        if message is None:
            self.credits[port] += 1
        elif isinstance(message, DataPacket):
            if len(self.inputs[port]) >= self.slots:
                raise WireError(
                    f"router {self.number} has no slot for a packet at port {port}: it had no credit"
                )
            self.inputs[port].append(message)
        else:
            self.receive_control(port, message)

    def receive_control(self, port: int, message: Identification | Recovery) -> None:
        """A control packet of NAC's, which a router without it has no use for: WireError."""
        raise WireError(f"router {self.number} runs no NAC, and got one of its control packets")

    def advance(self, now_s: float) -> None:
        """Move all that can move at this moment."""
        self.now_s = now_s
        while self._move_once():
            pass

    def next_time_s(self) -> float:
        """When ``advance`` is due although nothing has come: a link that is idle again, a retry timer. NEVER: not by
        itself."""
        waiting = [
            self.busy_until[port]
            for port, queue in enumerate(self.outputs)
            if queue and self.credits[port] and self.busy_until[port] > self.now_s
        ]
        return min(waiting, default=NEVER)

    def requested_output(self, port: int) -> int | None:
        """The port that the head of this input asks for; None where it is empty, or its head is for the host."""
        queue = self.inputs[port]
        return self._output_for(queue[0]) if queue else None

    def requested_from_avoidance(self, port: int) -> int | None:
        """The same of the packet in the avoidance buffer of this input."""
        packet = self.aside[port]
        return None if packet is None else self._output_for(packet)

    def free_slots_behind(self, port: int) -> int:
        """Free slots of the output buffer and, by its credits, of the input buffer behind the cable: cap(c) -
        size(c)."""
        return self.slots - len(self.outputs[port]) + self.credits[port]

    def snapshot(self) -> Snapshot:
        """What is where now."""
        ports = range(self.ports)
        return Snapshot(
            router=self.number,
            inputs=tuple(len(self.inputs[port]) for port in ports),
            wants=tuple(self.requested_output(port) for port in ports),
            outputs=tuple(map(len, self.outputs)),
            credits=tuple(self.credits),
            avoidance=tuple(int(packet is not None) for packet in self.aside),
        )

    def _output_for(self, packet: DataPacket) -> int | None:
        port = self.routes[packet.source, packet.destination]
        return port if port < self.ports else None

    def _move_once(self) -> bool:
        """One round over everything; whether anything moved."""
        before = self.moves
        local = self.inputs[-1]
        while self.source_queue and len(local) < self.slots:
            local.append(self.source_queue.popleft())
        for port in range(self.ports):
            self._eject(port)
        for out in range(self.ports):
            self._switch(out)
            self._transmit(out)
        return self.moves > before

    def _eject(self, port: int) -> None:
        """What is for the host always sinks."""
        queue = self.inputs[port]
        while queue and self._output_for(queue[0]) is None:
            packet = queue.popleft()
            ends = packet.source, packet.destination
            self.log.append(
                (*ends, packet.number, packet.hops, self.now_s - packet.made_ns * 1e-9, self.now_s)
            )
            self.moves += 1
            self._give_credit(port)

    def _switch(self, out: int) -> None:
        """Packets into the output buffer while it has room: from avoidance buffers first, then from inputs in turn."""
        while len(self.outputs[out]) < self.slots:
            for port in range(self.ports):
                if self.requested_from_avoidance(port) == out and self.may_pass(port, out):
                    self._take_aside(port, out)
                    break
            else:
                inputs = self.ports + 1
                for step in range(inputs):
                    port = (self.turn[out] + step) % inputs
                    if self.requested_output(port) == out and self.may_pass(port, out):
                        self._take(port, out)
                        break
                else:
                    return

    def may_pass(self, port: int, out: int) -> bool:
        """False where bubble flow control, or NAC, holds this input back from that output."""
        return (
            self.plan.avoidance != "bubble" or port != self.ports or self.free_slots_behind(out) > 1
        )

    def passed(self, port: int, out: int, *, aside: bool = False) -> None:
        """A packet of that input has gone to the output."""

    def _take_aside(self, port: int, out: int) -> None:
        packet = self.aside[port]
        assert packet is not None
        self.outputs[out].append(packet)
        self.aside[port] = None
        self.moves += 1
        self.passed(port, out, aside=True)

    def _take(self, port: int, out: int) -> None:
        self.outputs[out].append(self.inputs[port].popleft())
        self.turn[out] = (port + 1) % (self.ports + 1)
        self.moves += 1
        if port < self.ports:
            self._give_credit(port)
        self.passed(port, out)

    def _give_credit(self, port: int) -> None:
        """A slot of the input is free: its credit goes back over the cable."""
        self.outgoing.append((port, CREDIT_FRAME))

    def _transmit(self, out: int) -> None:
        """The head of the output buffer goes onto an idle cable, if there is a credit."""
        queue = self.outputs[out]
        if queue and self.credits[out] > 0 and self.busy_until[out] <= self.now_s:
            self.outgoing.append((out, queue.popleft().encode()))
            self.credits[out] -= 1
            self.busy_until[out] = self.now_s + self.plan.packet_s
            self.moves += 1
