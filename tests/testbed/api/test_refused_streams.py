"""A stream whose rules a switch refuses leaves what was installed between its ends before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import pytest

import testbed
from testbed.api.emulated.session_network import SessionNetwork
from testbed.emulation.control.controller_link import ControllerLink
from testbed.errors import CapabilityError
from testbed.openflow.rules import FlowRule
from testbed.stream.workload import stream_plan


class FullController:
    """Its switches refuse, where ``refuses``, every plan after the second."""

    def __init__(self) -> None:
        self.plans: set[int] = set()
        self.refuses = False

    def install(self, rules: Iterable[FlowRule], plan_id: int) -> float:
        if self.refuses and plan_id > 2:
            raise CapabilityError("switch 1 refused")
        self.plans.add(plan_id)
        return 0.0

    def remove(self, plan_id: int) -> None:
        self.plans.discard(plan_id)


def test_a_refused_stream_puts_back_what_was_installed() -> None:
    plan = stream_plan("ring:4", "s0", "s2", faults="none", duration_s=2, rate_pps=200)
    held = SessionNetwork(testbed.network("ring:4"), ["s0", "s2"], mtu=1500, shape=True)
    controller = FullController()
    held._controller = cast(ControllerLink, controller)
    held.install([plan.forward, plan.backward])
    assert controller.plans == {1, 2}
    controller.refuses = True
    with pytest.raises(CapabilityError):
        held.stream(plan, lambda *_: None)
    assert controller.plans == {1, 2} and not held._aside
