"""What the controller does, decided without a socket: which messages make a plan, and which take it away.

A plan is a set of rules that come and go together, known by a number that every one of its rules carries as a cookie.
Plans never overlap: one path of a pair is changed for another by a plan of the next version (``versioned_rules``), not
by editing one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from testbed.errors import InputError
from testbed.openflow.rules import FlowRule, by_switch

MAX_PLANS = 1 << 31


@dataclass(frozen=True, kw_only=True)
class SwitchBatch:
    """One batch for one switch, answered by one barrier: rules to add under ``cookie``, or a cookie whose rules go."""

    dpid: int
    action: Literal["add", "delete"]
    cookie: int
    rules: tuple[FlowRule, ...] = ()


class InstalledPlans:
    """Which plan's rules lie on which switches, and the steps that change it. Steps of one change may run in any
    order."""

    def __init__(self) -> None:
        self._plans: dict[int, tuple[int, ...]] = {}

    def install(self, plan_id: int, rules: Iterable[FlowRule]) -> tuple[SwitchBatch, ...]:
        """A plan that is not there yet. InputError where one of that id is."""
        if plan_id in self._plans:
            raise InputError(f"plan {plan_id} is installed; remove it first")
        if not 0 < plan_id < MAX_PLANS:
            raise InputError(f"plan id {plan_id} is outside 1..{MAX_PLANS - 1}")
        listed = by_switch(rules)
        self._plans[plan_id] = tuple(listed)
        return tuple(
            SwitchBatch(dpid=dpid, action="add", cookie=plan_id << 32, rules=own) for dpid, own in listed.items()
        )

    def remove(self, plan_id: int) -> tuple[SwitchBatch, ...]:
        """Take a plan away; nothing where it is not there."""
        there = self._plans.pop(plan_id, ())
        return tuple(SwitchBatch(dpid=dpid, action="delete", cookie=plan_id << 32) for dpid in there)
