"""A plan comes once under an id of its own, and goes whole; each switch's messages end with a barrier."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from testbed.errors import CapabilityError, InputError
from testbed.openflow.rules import FlowRule


class ObedientSwitch:
    """Confirms each barrier at once, and keeps what it was sent."""

    def __init__(self, controller: Any, dpid: int) -> None:
        self.sent: list[Any] = []
        self._controller, self._dpid, self._numbers = controller, dpid, itertools.count(1)

    def set_xid(self, message: Any) -> None:
        message.set_xid(next(self._numbers))

    def send_msg(self, message: Any) -> None:
        message.serialize()
        self.sent.append(message)
        if type(message).__name__ == "OFPBarrierRequest":
            self._controller._waiting.discard((self._dpid, message.xid))

    def take(self) -> list[tuple[str, int | None]]:
        taken, self.sent = (
            [(type(one).__name__, getattr(one, "cookie", None)) for one in self.sent],
            [],
        )
        return taken


def test_plan_is_installed_once_under_an_id_of_its_own_and_goes_whole() -> None:
    pytest.importorskip("os_ken")
    from testbed.emulation.control.openflow_controller import TestbedController

    controller = TestbedController()
    switches = {dpid: ObedientSwitch(controller, dpid) for dpid in (2, 4, 6)}
    controller._switches.update(switches)
    rules = [
        FlowRule(dpid=dpid, priority=9, match=(), out_port=port)
        for dpid, port in ((4, 1), (2, 1), (4, 2))
    ]
    end, cookie = ("OFPBarrierRequest", None), 1 << 32
    for _ in range(2):  # the id is free again
        controller._do_install(1, rules)
        assert switches[2].take() == [("OFPFlowMod", cookie), end]
        assert switches[4].take() == [("OFPFlowMod", cookie), ("OFPFlowMod", cookie), end]
        with pytest.raises(InputError, match="plan 1 is installed"):
            controller._do_install(1, rules)
        controller._do_remove(1)
        assert [switches[dpid].take() for dpid in (2, 4)] == [[("OFPFlowMod", cookie), end]] * 2
        controller._do_remove(1)
        assert [switches[dpid].take() for dpid in switches] == [[], [], []]
    for wrong in (0, -3, 1 << 31):
        with pytest.raises(InputError, match="plan id"):
            controller._do_install(wrong, rules)
    with pytest.raises(CapabilityError, match="switch 8 is not connected"):
        controller._do_install(2, [FlowRule(dpid=8, priority=9, match=(), out_port=1)])
