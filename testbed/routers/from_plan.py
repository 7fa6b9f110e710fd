"""What a plan gives each router: the router itself, empty, and the messages of its host."""

from __future__ import annotations

from testbed.routers.nac import Nac
from testbed.routers.plan import RouterPlan
from testbed.routers.router import Router, RouterSettings
from testbed.routers.wire import DataPacket


def build_router(plan: RouterPlan, number: int) -> Router:
    """One router of the plan, empty."""
    router = Router(
        RouterSettings(
            number=number,
            ports=len(plan.ports[number]),
            routes=plan.routes_of(number),
            avoidance=plan.avoidance,
            slots=plan.slots,
            packet_s=plan.packet_s,
            retry_s=plan.retry_s,
        )
    )
    if plan.avoidance == "nac":
        router.nac = Nac(router)
    return router


def messages_of(plan: RouterPlan, number: int) -> list[tuple[float, DataPacket]]:
    """What the router's host makes, and when (seconds after the start), in order. The payload tells its message apart."""
    found = []
    for flow in plan.flows:
        if flow.source == number:
            for count, time_s in enumerate(flow.times_s):
                seed = (flow.source * 65_537 + flow.destination * 257 + count) % 251
                packet = DataPacket(
                    source=flow.source,
                    destination=flow.destination,
                    number=count,
                    made_ns=round(time_s * 1e9),
                    payload=bytes((seed + k) % 256 for k in range(plan.payload_bytes)),
                )
                found.append((time_s, packet))
    return sorted(found, key=lambda each: each[0])
