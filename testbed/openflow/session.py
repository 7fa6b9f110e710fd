"""What the controller does, decided without a socket: which messages, in which order, make, replace or remove a plan.

Make before break: a new plan's rules lie above the old ones, the sink's first, before the first old one goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from testbed.errors import InputError
from testbed.openflow.rules import FlowRule, by_switch

MAX_PLANS = 1 << 31
DRAIN_S = 0.1
"""Time for packets under way to arrive: delays and queues of a path. Enough where links have no delay and no queue stands."""
_ABOVE = 1
"""A successor's rules lie this much above their final priority until the old ones are gone."""


@dataclass(frozen=True, kw_only=True)
class SwitchStep:
    """One batch for one switch, answered by one barrier: rules to add under ``cookie``, or a cookie whose rules go."""

    dpid: int
    action: Literal["add", "delete"]
    cookie: int
    rules: tuple[FlowRule, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Steps that may run at once, in any order; the next phase begins when every barrier of this one has been answered.

    ``drain``: before the first step, wait until the packets that are now under way have arrived.
    """

    steps: tuple[SwitchStep, ...]
    drain: bool = False


class PlanBook:
    """Which plan's rules lie on which switches, and the phases that change it.

    A replacement first writes the new rules *above* the old ones (one priority higher), group by group of ``order``, the
    sink's first: a packet that meets a new rule finds new rules all the way, one that meets none goes on by old ones. Then
    the old rules go, the new ones are written again at their own priority and those above go. Before each further group,
    and before the old rules go, the packets under way arrive: else one that an old rule took past a switch could be
    brought back to it by a new rule (and a switch sends nothing back through the port that it came by). So at every
    moment each packet of the pair finds a rule at each switch it comes to, and none comes to a switch twice.
    """

    def __init__(self) -> None:
        self._plans: dict[int, tuple[int, frozenset[int]]] = {}

    def install(self, plan_id: int, rules: Iterable[FlowRule]) -> tuple[Phase, ...]:
        """A plan that is not there yet. InputError where one of that id is."""
        if plan_id in self._plans:
            raise InputError(f"plan {plan_id} is installed; replace it, or remove it first")
        if not 0 < plan_id < MAX_PLANS:
            raise InputError(f"plan id {plan_id} lies outside 1..{MAX_PLANS - 1}")
        listed = by_switch(rules)
        self._plans[plan_id] = (0, frozenset(listed))
        return (_adding(listed, _cookie(plan_id, 0)),)

    def replace(self, plan_id: int, rules: Iterable[FlowRule], order: Sequence[Sequence[int]]) -> tuple[Phase, ...]:
        """New rules for a plan (installed where it is not there).

        ``order``: datapath ids in groups, the sink's first, as ``rules.downstream_order`` gives them for the new split; so
        a plan that is to be replaced holds one split. InputError where a switch of the new rules is not in it.
        """
        listed = by_switch(rules)
        named = [dpid for group in order for dpid in group]
        missing = sorted(listed.keys() - set(named))
        if missing:
            raise InputError(
                f"plan {plan_id}: switch {missing[0]} has rules but no place in the order of the change; give the groups of "
                "downstream_order"
            )
        if plan_id not in self._plans:
            return self.install(plan_id, (rule for own in listed.values() for rule in own))
        generation, there = self._plans[plan_id]
        above = {d: tuple(replace(r, priority=r.priority + _ABOVE) for r in own) for d, own in listed.items()}
        old, passing, new = (_cookie(plan_id, generation + k) for k in range(3))
        self._plans[plan_id] = (generation + 2, frozenset(listed))
        groups = [[d for d in dict.fromkeys(group) if d in above] for group in order]
        making = [_adding({d: above[d] for d in group}, passing) for group in groups if group]
        return (
            *making[:1],
            *(replace(phase, drain=True) for phase in making[1:]),
            replace(_deleting(sorted(there), old), drain=True),
            _adding(listed, new),
            _deleting(sorted(listed), passing),
        )

    def remove(self, plan_id: int) -> tuple[Phase, ...]:
        """Take a plan away; nothing where it is not there."""
        if plan_id not in self._plans:
            return ()
        generation, there = self._plans.pop(plan_id)
        return (_deleting(sorted(there), _cookie(plan_id, generation)),)


def _adding(listed: Mapping[int, tuple[FlowRule, ...]], cookie: int) -> Phase:
    return Phase(steps=tuple(SwitchStep(dpid=d, action="add", cookie=cookie, rules=own) for d, own in listed.items()))


def _deleting(dpids: Iterable[int], cookie: int) -> Phase:
    return Phase(steps=tuple(SwitchStep(dpid=d, action="delete", cookie=cookie) for d in dpids))


def _cookie(plan_id: int, generation: int) -> int:
    return plan_id << 32 | generation & 0xFFFFFFFF


def rules_to_json(rules: Iterable[FlowRule]) -> list[list[Any]]:
    """Rules as JSON-ready lists, for the way to the controller's process."""
    return [
        [
            r.dpid,
            r.priority,
            [[n, list(v) if isinstance(v, tuple) else v] for n, v in r.match],
            r.out_port,
            [list(field) for field in r.set_fields],
            r.group,
            r.dec_ttl,
        ]
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
            set_fields=tuple((n, v) for n, v in fields),
            group=group,
            dec_ttl=dec_ttl,
        )
        for dpid, priority, match, port, fields, group, dec_ttl in document
    ]
