"""NAC at a software router (Zarza 2011, section 4.2).

NAC detects deadlock-prone situations, throttles injection, identifies cycles and recovers
gradually. docs/workloads/nac_decisions.md lists the decisions that the thesis leaves open. Here
routers are processes, and the times of control packets are real, not modelled.
"""

from collections import Counter

from testbed.routers.plan import RouterPlan
from testbed.routers.router import NEVER, Router
from testbed.routers.wire import Identification, Recovery

# Largest number of inputs on the path of an identification packet. Longer paths are given up.
MAX_CYCLE = 512

# Names of NAC's events in reports.
COUNTED = (
    "blocked",
    "retries",
    "identification packets",
    "identified",
    "moves",
    "recovery moves",
    "reserved",
    "normal",
)


class NacRouter(Router):
    """A router that uses NAC.

    Attributes:
        blocked: Blocked input -> when it sends its next identification packet (seconds).
        reserved: Output -> the input for which the next free slot behind it is reserved (the
            thesis's stop_st).
        withheld: Number of reasons to throttle the host (the thesis's stop_fw): blocked inputs, and
            packets in avoidance buffers.
        done: Number of NAC's events by name.
    """

    def __init__(self, plan: RouterPlan, number: int) -> None:
        super().__init__(plan, number)
        self.blocked: dict[int, float] = {}
        self.reserved: dict[int, int] = {}
        self.withheld = 0
        self.done = Counter(dict.fromkeys(COUNTED, 0))

    def advance(self, now_s: float) -> None:
        """Move all packets that can move now, then detect blocked inputs."""
        super().advance(now_s)
        self._detect()

    def next_time_s(self) -> float:
        """Return when the next retry is due, or a link becomes idle."""
        return min(super().next_time_s(), *self.blocked.values(), NEVER)

    def receive_control(self, port: int, message: Identification | Recovery) -> None:
        """Process a control packet that arrived at the port."""
        if isinstance(message, Identification):
            self._receive_identification(port, message)
        else:
            self._receive_recovery(port, message)

    def _detect(self) -> None:
        """Find the inputs that meet conditions 4.1 to 4.3 now, and send identification packets.

        A packet is sent for an input when it becomes blocked, and again after each retry time.
        """
        for port in range(self.ports):
            if not self.is_blocked(port):
                if self.blocked.pop(port, None) is not None:
                    self.withheld -= 1
                continue
            if port not in self.blocked:
                self.withheld += 1
                self.done["blocked"] += 1
            elif self.blocked[port] > self.now_s:
                continue
            else:
                self.done["retries"] += 1
            self.blocked[port] = self.now_s + self.plan.retry_s
            out = self.requested_output(port)
            assert out is not None
            origin = (self.number, port)
            self._send(port, Identification(origin=origin, out=out, path=(origin,)))

    def is_blocked(self, port: int) -> bool:
        """Return whether the input meets conditions 4.1 to 4.3.

        It is full (4.3), requests an output to another router (4.2), and every slot behind that
        output is taken (4.1).
        """
        if len(self.inputs[port]) < self.slots:
            return False
        out = self.requested_output(port)
        return out is not None and self.free_slots_behind(out) <= 0

    def may_pass(self, port: int, out: int) -> bool:
        """Return whether NAC lets a packet of the input pass to the output.

        The host's packets do not pass while the host is throttled (``withheld``). A slot that is
        reserved for another input is not used.
        """
        if port == self.ports and self.withheld > 0:
            return False
        holder = self.reserved.get(out, port)
        return holder == port or self.free_slots_behind(out) > 1

    def passed(self, port: int, out: int, *, aside: bool = False) -> None:
        """Drop the reservation of the input, whose packet has moved to the output.

        Args:
            port: The input.
            out: The output.
            aside: Whether the packet was in the avoidance buffer of the input.
        """
        if self.reserved.get(out) == port:
            del self.reserved[out]
        if aside:
            self.withheld -= 1

    def _receive_identification(self, port: int, packet: Identification) -> None:
        """Process an identification packet.

        A packet that arrives at the output for which its origin sent it has gone round a cycle.
        Other packets are forwarded upstream, through each blocked input that requests this output.
        """
        origin_router, origin = packet.origin
        if origin_router == self.number and packet.out == port:
            if self.is_blocked(origin) and self.requested_output(origin) == port:
                self._close_cycle(origin, packet)
            return
        for other in range(self.ports):
            waiting_input = (self.number, other)
            waits = self.requested_output(other) == port and self.is_blocked(other)
            if waits and waiting_input not in packet.path and len(packet.path) < MAX_CYCLE:
                path = (*packet.path, waiting_input)
                self._send(other, Identification(origin=packet.origin, out=packet.out, path=path))

    def _receive_recovery(self, out: int, signal: Recovery) -> None:
        """Process a recovery signal, which carries the credit of the slot that a move has freed.

        Conditions 4.4 to 4.7 decide whether the input of the cycle moves its head, reserves the
        slot, or does nothing because normal operation has resumed.
        """
        self.credits[out] += 1
        number, port = signal.path[signal.place % len(signal.path)]
        assert number == self.number
        is_full = len(self.inputs[port]) >= self.slots
        requests_out = self.requested_output(port) == out
        still_waits = is_full and requests_out and self.free_slots_behind(out) <= 1
        if not still_waits and self.requested_from_avoidance(port) != out:
            self.done["normal"] += 1
            return
        if self.reserved.get(out, port) == port:
            self.reserved[out] = port
            self.done["reserved"] += 1
        cycle_continues = signal.place < len(signal.path)
        if still_waits and cycle_continues and self.aside[port] is None:
            self.done["recovery moves"] += 1
            self._move(port, signal.path, signal.place)

    def _close_cycle(self, port: int, packet: Identification) -> None:
        """Move the head of an input that identified a cycle, if its avoidance buffer is free."""
        self.done["identified"] += 1
        if self.aside[port] is None:
            self.done["moves"] += 1
            self._move(port, packet.path, 0)

    def _move(self, port: int, path: tuple[tuple[int, int], ...], position: int) -> None:
        """Move the head of an input to its avoidance buffer (the thesis's move(a, d)).

        One frame carries the credit of the freed slot and the recovery signal to the router
        upstream.

        Args:
            port: The input.
            path: The inputs of the cycle.
            position: Index of the input in the path.
        """
        self.aside[port] = self.inputs[port].popleft()
        self.moves += 1
        self.withheld += 1
        if self.blocked.pop(port, None) is not None:
            self.withheld -= 1
        self.outgoing.append((port, Recovery(path=path, place=position + 1).encode()))

    def _send(self, port: int, packet: Identification) -> None:
        self.done["identification packets"] += 1
        self.outgoing.append((port, packet.encode()))


def build_router(plan: RouterPlan, number: int) -> Router:
    """Return a router of the plan, with empty buffers."""
    if plan.avoidance == "nac":
        return NacRouter(plan, number)
    return Router(plan, number)
