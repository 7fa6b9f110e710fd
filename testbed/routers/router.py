"""A software router: finite queues, credits and a crossbar, without sockets or clocks.

Theory of operation
-------------------
A router has an input buffer and an output buffer of a few packets at every port. Next to each input
buffer there is an avoidance buffer of one packet (for NAC). Another input buffer is for the
router's host; it is filled from a queue without limit.

A router sends a packet over a cable only with a credit, which stands for a free slot of the input
buffer at the other end. The credit returns when the packet leaves that buffer. So nothing is ever
dropped: without room, packets wait, and if they wait in a cycle, they wait permanently.

``receive`` takes a frame, ``inject`` a message of the host, and ``advance`` does everything that is
possible now. ``outgoing`` contains the frames to send, and ``log`` the messages that arrived for
the host. The caller supplies the time, in seconds.
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

# The time of an event that does not occur.
NEVER = float("inf")
# A message that arrived: source, destination, number, hops, latency from its generation on
# (seconds, source queue included), and time of arrival (seconds).
Arrival = tuple[int, int, int, int, float, float]


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The contents of a router's buffers at one moment, by port.

    Attributes:
        router: Number of the router.
        inputs: Number of packets in each input buffer.
        wants: The port that the first packet of each input requests; None if the input is empty, or
            the packet is for the host.
        outputs: Number of packets in each output buffer.
        credits: Number of credits of each port.
        avoidance: Number of packets in each avoidance buffer.
    """

    router: int
    inputs: tuple[int, ...]
    wants: tuple[int | None, ...]
    outputs: tuple[int, ...]
    credits: tuple[int, ...]
    avoidance: tuple[int, ...]


class Router:
    """A router of a plan. Ports are numbered from 0; the port with number ``ports`` is the host's.

    The *head* of a buffer is its first packet.

    Attributes:
        plan: The plan.
        number: Number of the router.
        slots: Number of packets that each buffer holds.
        ports: Number of ports with a cable.
        routes: (source, destination) -> port.
        inputs: The input buffers; the last one is that of the host.
        outputs: The output buffers.
        aside: The packet in the avoidance buffer of each input, or None.
        credits: Free slots of the input buffer at the other end of each cable.
        busy_until: When each cable becomes idle (seconds).
        turn: For each output, the input at which its next round-robin search begins.
        source_queue: Messages of the host that have not entered the router.
        outgoing: Frames to send, with their ports.
        log: Messages that arrived for the host.
        moves: Number of packets moved, within the router or out of it.
        done: Number of NAC's events by name (``testbed.routers.nac``).
        now_s: The current time.
    """

    def __init__(self, plan: RouterPlan, number: int) -> None:
        self.plan = plan
        self.number = number
        self.slots = plan.slots
        ports = len(plan.ports[number])
        self.ports = ports
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
        self.done: Counter[str] = Counter()
        self.now_s = 0.0

    def inject(self, packet: DataPacket) -> None:
        """Append a message of the router's host to the source queue."""
        self.source_queue.append(packet)

    def receive(self, port: int, frame: bytes, now_s: float) -> None:
        """Process a frame that arrived at the port.

        Raises:
            WireError: The frame is invalid, or a packet for which there is no slot.
        """
        self.now_s = now_s
        message = decode(frame)
        if message is None:
            self.credits[port] += 1
        elif isinstance(message, DataPacket):
            if len(self.inputs[port]) >= self.slots:
                raise WireError(
                    f"router {self.number} has no slot for a packet at port {port}: "
                    "it had no credit"
                )
            self.inputs[port].append(message)
        else:
            self.receive_control(port, message)

    def receive_control(self, port: int, message: Identification | Recovery) -> None:
        """Raise an error, because a router without NAC gets no control packet.

        Raises:
            WireError: Always.
        """
        raise WireError(f"router {self.number} runs no NAC, and got one of its control packets")

    def advance(self, now_s: float) -> None:
        """Move all packets that can move now."""
        self.now_s = now_s
        while self._move_once():
            pass

    def next_time_s(self) -> float:
        """Return when the caller must call ``advance`` even if no frame arrives, in seconds.

        It is the time when a link becomes idle, or NEVER if the router waits only for frames.
        """
        next_s = NEVER
        for port, queue in enumerate(self.outputs):
            if queue and self.credits[port] and self.busy_until[port] > self.now_s:
                next_s = min(next_s, self.busy_until[port])
        return next_s

    def requested_output(self, port: int) -> int | None:
        """Return the port that the head of this input requests.

        None if the input is empty, or its head is for the host.
        """
        queue = self.inputs[port]
        return self._output_for(queue[0]) if queue else None

    def requested_from_avoidance(self, port: int) -> int | None:
        """Return the port that the packet in the avoidance buffer of this input requests.

        None if the buffer is empty, or its packet is for the host.
        """
        packet = self.aside[port]
        return None if packet is None else self._output_for(packet)

    def free_slots_behind(self, port: int) -> int:
        """Return the number of free slots behind the port (the thesis's cap(c) - size(c)).

        These are the free slots of the output buffer, and those of the input buffer at the other
        end of the cable, which the credits count.
        """
        return self.slots - len(self.outputs[port]) + self.credits[port]

    def snapshot(self) -> Snapshot:
        """Return the contents of the buffers now."""
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
        """Serve each input and output once, and return whether a packet moved."""
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
        """Deliver the packets at the head of an input that are for the host, which accepts all."""
        queue = self.inputs[port]
        while queue and self._output_for(queue[0]) is None:
            packet = queue.popleft()
            latency_s = self.now_s - packet.made_ns * 1e-9
            self.log.append(
                (
                    packet.source,
                    packet.destination,
                    packet.number,
                    packet.hops,
                    latency_s,
                    self.now_s,
                )
            )
            self.moves += 1
            self._give_credit(port)

    def _switch(self, out: int) -> None:
        """Move packets into an output buffer while it has room and inputs request it."""
        while len(self.outputs[out]) < self.slots:
            if not (self._switch_from_avoidance(out) or self._switch_from_input(out)):
                return

    def _switch_from_avoidance(self, out: int) -> bool:
        """Move a packet from an avoidance buffer to the output, and return whether one moved."""
        for port in range(self.ports):
            if self.requested_from_avoidance(port) == out and self.may_pass(port, out):
                self._take_aside(port, out)
                return True
        return False

    def _switch_from_input(self, out: int) -> bool:
        """Move a packet to the output from the next input, in round-robin order.

        Returns:
            Whether a packet moved.
        """
        inputs = self.ports + 1
        for step in range(inputs):
            port = (self.turn[out] + step) % inputs
            if self.requested_output(port) == out and self.may_pass(port, out):
                self._take(port, out)
                return True
        return False

    def may_pass(self, port: int, out: int) -> bool:
        """Return whether bubble flow control lets a packet of the input pass to the output."""
        if self.plan.avoidance == "bubble" and port == self.ports:
            return self.free_slots_behind(out) > 1
        return True

    def passed(self, port: int, out: int, *, aside: bool = False) -> None:
        """Do nothing. A subclass overrides it to act when a packet has moved to the output.

        Args:
            port: The input from which the packet came.
            out: The output.
            aside: Whether the packet was in the avoidance buffer of the input.
        """

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
        """Send a credit upstream, because a slot of the input has become free."""
        self.outgoing.append((port, CREDIT_FRAME))

    def _transmit(self, out: int) -> None:
        """Send the head of the output buffer if the cable is idle and there is a credit."""
        queue = self.outputs[out]
        if queue and self.credits[out] > 0 and self.busy_until[out] <= self.now_s:
            self.outgoing.append((out, queue.popleft().encode()))
            self.credits[out] -= 1
            self.busy_until[out] = self.now_s + self.plan.packet_s
            self.moves += 1
