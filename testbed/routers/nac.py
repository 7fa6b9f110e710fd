"""NAC at a software router (Zarza 2011, section 4.2): detection, throttle, identification of cycles, gradual recovery.

The decisions are those listed in docs/workloads/nac.md; here between processes whose frames take the time they
take.
"""

from collections import Counter

from testbed.routers.plan import RouterPlan
from testbed.routers.router import NEVER, Router
from testbed.routers.wire import Identification, Recovery

MAX_CYCLE = 512
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
"""What NAC does, as it is counted."""


class NacRouter(Router):
    """A router that remembers which inputs are blocked, which free slots are a cycle's, why its host is held back."""

    def __init__(self, plan: RouterPlan, number: int) -> None:
        super().__init__(plan, number)
        self.blocked: dict[int, float] = {}
        """Blocked inputs, and when each identifies itself again."""
        self.reserved: dict[int, int] = {}
        """Output -> the input for which the next free slot behind it is kept (stop_st)."""
        self.withheld = 0
        """Reasons to hold back the host (stop_fw): blocked inputs, packets in avoidance buffers."""
        self.done = Counter(dict.fromkeys(COUNTED, 0))

    def advance(self, now_s: float) -> None:
        """Move all that can move at this moment, then look at what cannot."""
        super().advance(now_s)
        self._detect()

    def next_time_s(self) -> float:
        """When the next retry is due, or a link is idle again."""
        return min(super().next_time_s(), *self.blocked.values(), NEVER)

    def receive_control(self, port: int, message: Identification | Recovery) -> None:
        if isinstance(message, Identification):
            self._receive_identification(port, message)
        else:
            self._receive_recovery(port, message)

    def _detect(self) -> None:
        """Which inputs meet conditions 4.1 to 4.3 now; those that newly do, or still do after the retry time, ask
        round."""
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
            here = (self.number, port)
            self._send(port, Identification(origin=here, out=out, path=(here,)))

    def is_blocked(self, port: int) -> bool:
        """True where the input is full (4.3), asks for another router (4.2), and every slot that way is taken (4.1)."""
        if len(self.inputs[port]) < self.slots:
            return False
        out = self.requested_output(port)
        return out is not None and self.free_slots_behind(out) <= 0

    def may_pass(self, port: int, out: int) -> bool:
        """The throttle: not from the host while there is a reason; not into a slot that is kept for another input."""
        if port == self.ports and self.withheld > 0:
            return False
        holder = self.reserved.get(out, port)
        return holder == port or self.free_slots_behind(out) > 1

    def passed(self, port: int, out: int, *, aside: bool = False) -> None:
        """A packet of that input has gone to the output: a slot kept for it is used."""
        if self.reserved.get(out) == port:
            del self.reserved[out]
        self.withheld -= aside

    def _receive_identification(self, port: int, packet: Identification) -> None:
        """It came back through the output it was sent for: a cycle. Else every blocked input that asks for it passes it
        on."""
        origin_router, origin = packet.origin
        if origin_router == self.number and packet.out == port:
            if self.is_blocked(origin) and self.requested_output(origin) == port:
                self._close_cycle(origin, packet)
            return
        for other in range(self.ports):
            here = (self.number, other)
            asks = self.requested_output(other) == port and self.is_blocked(other)
            if asks and here not in packet.path and len(packet.path) < MAX_CYCLE:
                self._send(
                    other,
                    Identification(origin=packet.origin, out=packet.out, path=(*packet.path, here)),
                )

    def _receive_recovery(self, out: int, signal: Recovery) -> None:
        """The credit of a slot that a move has freed: conditions 4.4 to 4.7, then a move, a reservation, or normal
        work."""
        self.credits[out] += 1
        number, port = signal.path[signal.place % len(signal.path)]
        assert number == self.number
        full = len(self.inputs[port]) >= self.slots
        wants = full and self.requested_output(port) == out and self.free_slots_behind(out) <= 1
        moves = wants and signal.place < len(signal.path) and self.aside[port] is None
        if not wants and self.requested_from_avoidance(port) != out:
            self.done["normal"] += 1
            return
        if self.reserved.get(out, port) == port:
            self.reserved[out] = port
            self.done["reserved"] += 1
        if moves:
            self.done["recovery moves"] += 1
            self._move(port, signal.path, signal.place)

    def _close_cycle(self, port: int, packet: Identification) -> None:
        self.done["identified"] += 1
        if self.aside[port] is None:
            self.done["moves"] += 1
            self._move(port, packet.path, 0)

    def _move(self, port: int, path: tuple[tuple[int, int], ...], place: int) -> None:
        """move(a, d): the head goes aside; the slot it leaves, and the signal, go up the cable together."""
        self.aside[port] = self.inputs[port].popleft()
        self.moves += 1
        self.withheld += 1
        if self.blocked.pop(port, None) is not None:
            self.withheld -= 1
        self.outgoing.append((port, Recovery(path=path, place=place + 1).encode()))

    def _send(self, port: int, packet: Identification) -> None:
        self.done["identification packets"] += 1
        self.outgoing.append((port, packet.encode()))


def build_router(plan: RouterPlan, number: int) -> Router:
    """One router of the plan, empty."""
    return (NacRouter if plan.avoidance == "nac" else Router)(plan, number)
