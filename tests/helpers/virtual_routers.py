"""The software routers and the same frames in virtual time: every frame takes a time drawn by chance, in order on each
cable."""

from __future__ import annotations

import heapq
import itertools

import numpy as np

from testbed.routers.measurements import RouterReport, RouterRun
from testbed.routers.nac import build_router
from testbed.routers.plan import RouterPlan
from testbed.routers.router import NEVER
from testbed.routers.wire import DataPacket


class VirtualRouters:
    """All routers of a plan on one virtual clock. ``delay_s``: a frame takes up to so long over a cable, by chance."""

    def __init__(self, plan: RouterPlan, *, seed: int = 1, delay_s: float = 1e-4) -> None:
        self.plan = plan
        self.routers = [build_router(plan, number) for number in range(plan.routers)]
        self.delay_s = delay_s
        self.chance = np.random.default_rng(seed)
        self.order = itertools.count()
        self.events: list[tuple[float, int, int, int, bytes | DataPacket | None]] = []
        self.last_sent: dict[tuple[int, int], float] = {}
        self.alarms = [NEVER] * plan.routers

    def run(self) -> RouterRun:
        """Until everything has arrived, nothing has moved for ``stuck_s``, or the time is over."""
        plan = self.plan
        for number in range(plan.routers):
            for time_s, packet in plan.messages_of(number):
                self._push(time_s, number, -1, packet)
        moves = delivered = 0
        now_s = last_move_s = 0.0
        while self.events and delivered < plan.messages:
            now_s, _, number, port, what = heapq.heappop(self.events)
            if now_s > plan.limit_s or now_s - last_move_s > plan.stuck_s:
                break
            router = self.routers[number]
            before = router.moves, len(router.log)
            if isinstance(what, DataPacket):
                router.inject(what)
            elif what is not None:
                router.receive(port, what, now_s)
            else:
                self.alarms[number] = NEVER
            router.advance(now_s)
            self._send(number, now_s)
            moves += router.moves - before[0]
            delivered += len(router.log) - before[1]
            if router.moves > before[0]:
                last_move_s = now_s
        done = delivered == plan.messages
        return RouterRun(
            made=plan.messages,
            reports=tuple(
                RouterReport(log=r.log, snapshot=r.snapshot(), nac=r.done) for r in self.routers
            ),
            seconds=now_s,
            stuck_for_s=0.0 if done else plan.stuck_s,
        )

    def _send(self, number: int, now_s: float) -> None:
        """Schedule the arrival of sent messages in the order of each cable, and the next alarm."""
        router = self.routers[number]
        for port, frame in router.outgoing:
            neighbour = self.plan.ports[number][port]
            there = self.plan.ports[neighbour].index(number)
            at_s = max(
                now_s + self.delay_s * float(self.chance.random()),
                self.last_sent.get((number, port), 0.0),
            )
            self.last_sent[number, port] = at_s
            self._push(at_s, neighbour, there, frame)
        router.outgoing.clear()
        alarm_s = router.next_time_s()
        if alarm_s < self.alarms[number]:
            self.alarms[number] = alarm_s
            self._push(max(alarm_s, now_s), number, -1, None)

    def _push(self, at_s: float, number: int, port: int, what: bytes | DataPacket | None) -> None:
        heapq.heappush(self.events, (at_s, next(self.order), number, port, what))
