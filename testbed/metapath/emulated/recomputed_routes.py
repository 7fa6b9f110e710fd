"""A capillary route that the controller computes again whenever a cable loses its carrier or gets it back."""

import time
from dataclasses import replace

from testbed.emulation.control.controller_link import ControllerLink
from testbed.emulation.network.open_vswitch.switches import flush_flow_cache
from testbed.metapath.plan import MetapathPlan, Rerouting
from testbed.model.wiring import Wiring
from testbed.openflow.rules import versioned_rules
from testbed.stream.mobility import on_network, splits_of
from topologies import LinkId, NoPathError

_DRAIN_S = 0.3


class RecomputedRoutes:
    """Versions of one split, the first over all links, made in the caller's thread. Version k is the controller's plans
    2k+2 and 2k+3. ``done``: on the monotonic clock."""

    def __init__(self, controller: ControllerLink, wiring: Wiring, plan: MetapathPlan) -> None:
        self.done: list[Rerouting] = []
        self._controller, self._wiring, self._plan = controller, wiring, plan
        self._down: frozenset[LinkId] = frozenset()
        self._number = 0
        self._install()

    def avoid(self, down: frozenset[LinkId], notified_s: float) -> None:
        """These links are down, as was reported to the controller at ``notified_s`` (monotonic): route again and change
        over; as it was where no way is left."""
        self._down = down
        self._number += 1
        try:
            routed_s, rules = self._install()
        except NoPathError:
            return
        flush_flow_cache()
        self.done.append(
            Rerouting(
                notified_s=notified_s, routed_s=routed_s, done_s=time.monotonic(), rules=rules
            )
        )
        time.sleep(_DRAIN_S)
        for plan_id in (2 * self._number + 1, 2 * self._number):
            self._controller.remove(plan_id)

    def reroutings(self, start_s: float) -> tuple[Rerouting, ...]:
        """What was done, in seconds after the stream's start."""
        times = ("notified_s", "routed_s", "done_s")
        return tuple(
            replace(one, **{name: getattr(one, name) - start_s for name in times})
            for one in self.done
        )

    def _install(self) -> tuple[float, int]:
        whole = self._plan.network
        left = whole.without(*self._down)
        _, forward, _ = splits_of(left, self._plan.source, self._plan.sink)
        routed_s = time.monotonic()
        rules = versioned_rules(self._wiring, on_network(forward, whole), number=self._number)
        self._controller.install(rules.inner, plan_id=2 * self._number + 2)
        self._controller.install(rules.entry, plan_id=2 * self._number + 3)
        return routed_s, len(rules.inner) + len(rules.entry)
