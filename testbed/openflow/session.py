"""What the controller does, decided without a socket: which messages, in which order, make, replace or remove a plan.

Make before break: a new plan's rules are all there, below the old ones, before the first old one goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from testbed.errors import InputError
from testbed.openflow.rules import FlowRule, by_switch

MOST_PLANS = 1 << 31
_SHADOW = 1
"""A successor's rules lie this much below their final priority until the old ones are gone."""


@dataclass(frozen=True, kw_only=True)
class SwitchStep:
    """One batch for one switch, answered by one barrier: rules to add under ``cookie``, or a cookie whose rules go."""

    dpid: int
    action: Literal["add", "delete"]
    cookie: int
    rules: tuple[FlowRule, ...] = ()


Phase = tuple[SwitchStep, ...]
"""Steps that may run at once; the next phase begins when every barrier of this one has been answered."""


class PlanBook:
    """Which plan's rules lie on which switches, and the phases that change it.

    A replacement takes four kinds of phases. The new rules are added in the *shadow* of the old ones (one priority below).
    Then the old ones go, switch by switch in ``order``, sinks first: a packet that meets a new rule finds new rules all
    the way, one that meets an old rule goes on by old ones until it does. Then the new rules are written again at their full
    priority, and the shadow goes. No packet finds no rule, and none goes round in a circle.
    """

    def __init__(self) -> None:
        self._plans: dict[int, tuple[int, frozenset[int]]] = {}

    def install(self, plan_id: int, rules: Iterable[FlowRule]) -> tuple[Phase, ...]:
        """A plan that is not there yet. InputError where one of that id is."""
        if plan_id in self._plans:
            raise InputError(f"plan {plan_id} is installed; replace it, or remove it first")
        if not 0 < plan_id < MOST_PLANS:
            raise InputError(f"plan id {plan_id} lies outside 1..{MOST_PLANS - 1}")
        listed = by_switch(rules)
        self._plans[plan_id] = (0, frozenset(listed))
        return (_adding(listed, _cookie(plan_id, 0)),)

    def replace(
        self, plan_id: int, rules: Iterable[FlowRule], order: Sequence[Sequence[int]] = ()
    ) -> tuple[Phase, ...]:
        """New rules for a plan (installed where it is not there). ``order``: datapath ids in groups, the sink's first;
        those it leaves out come last."""
        if plan_id not in self._plans:
            return self.install(plan_id, rules)
        generation, there = self._plans[plan_id]
        listed = by_switch(rules)
        shadow = {d: tuple(replace(r, priority=r.priority - _SHADOW) for r in own) for d, own in listed.items()}
        old, below, new = (_cookie(plan_id, generation + k) for k in range(3))
        self._plans[plan_id] = (generation + 2, frozenset(listed))
        groups = [[d for d in group if d in there] for group in order]
        named = {d for group in groups for d in group}
        breaking = [_deleting(group, old) for group in (*groups, sorted(there - named)) if group]
        return (_adding(shadow, below), *breaking, _adding(listed, new), _deleting(sorted(listed), below))

    def remove(self, plan_id: int) -> tuple[Phase, ...]:
        """Take a plan away; nothing where it is not there."""
        if plan_id not in self._plans:
            return ()
        generation, there = self._plans.pop(plan_id)
        return (_deleting(sorted(there), _cookie(plan_id, generation)),)


def _adding(listed: Mapping[int, tuple[FlowRule, ...]], cookie: int) -> Phase:
    return tuple(SwitchStep(dpid=d, action="add", cookie=cookie, rules=own) for d, own in listed.items())


def _deleting(dpids: Iterable[int], cookie: int) -> Phase:
    return tuple(SwitchStep(dpid=d, action="delete", cookie=cookie) for d in dpids)


def _cookie(plan_id: int, generation: int) -> int:
    return plan_id << 32 | generation & 0xFFFFFFFF


def rules_to_json(rules: Iterable[FlowRule]) -> list[list[Any]]:
    """Rules as JSON-ready lists, for the way to the controller's process."""
    return [
        [r.dpid, r.priority, [[n, list(v) if isinstance(v, tuple) else v] for n, v in r.match], r.out_port]
        for r in rules
    ]


def rules_from_json(document: Iterable[Sequence[Any]]) -> list[FlowRule]:
    """What ``rules_to_json`` wrote."""
    return [
        FlowRule(
            dpid=dpid,
            priority=priority,
            match=tuple((n, (v[0], v[1]) if isinstance(v, list) else v) for n, v in match),
            out_port=port,
        )
        for dpid, priority, match, port in document
    ]
