"""A capillary route that the controller recomputes when a cable loses or regains its carrier."""

import time
from dataclasses import replace

from testbed.emulation.control.controller_link import ControllerLink
from testbed.emulation.network.open_vswitch.switches import flush_flow_cache
from testbed.metapath.plan import MetapathPlan, Rerouting
from testbed.model.wiring import Wiring
from testbed.openflow.rules import versioned_rules
from testbed.stream.mobility import on_network, splits_of
from topologies import LinkId, NoPathError

# How long the old rules remain for packets in transit.
_DRAIN_S = 0.3


class RecomputedRoutes:
    """The versions of one split, the first over all links.

    Everything runs in the caller's thread. Version k has the plan ids 2k+2 and 2k+3 at the
    controller.

    Attributes:
        done: The changes so far, with times of the monotonic clock.
    """

    def __init__(self, controller: ControllerLink, wiring: Wiring, plan: MetapathPlan) -> None:
        self.done: list[Rerouting] = []
        self._controller = controller
        self._wiring = wiring
        self._plan = plan
        self._down: frozenset[LinkId] = frozenset()
        self._number = 0
        self._install()

    def avoid(self, down: frozenset[LinkId], notified_s: float) -> None:
        """Recompute the route without the links that are down, and replace the rules.

        If no path is left, the rules remain.

        Args:
            down: The links that are down.
            notified_s: When the controller was notified, on the monotonic clock.
        """
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
        # The entry rules go first, so that no packet enters without inner rules.
        for plan_id in (2 * self._number + 1, 2 * self._number):
            self._controller.remove(plan_id)

    def reroutings(self, start_s: float) -> tuple[Rerouting, ...]:
        """Return the changes, with times in seconds after the stream's start.

        Args:
            start_s: The start on the monotonic clock.
        """
        reroutings = []
        for change in self.done:
            relative = replace(
                change,
                notified_s=change.notified_s - start_s,
                routed_s=change.routed_s - start_s,
                done_s=change.done_s - start_s,
            )
            reroutings.append(relative)
        return tuple(reroutings)

    def _install(self) -> tuple[float, int]:
        """Install the current version.

        Returns:
            When it was computed, on the monotonic clock, and its number of rules.

        Raises:
            NoPathError: No path is left.
        """
        network = self._plan.network
        remaining = network.without(*self._down)
        _, forward, _ = splits_of(remaining, self._plan.source, self._plan.sink)
        routed_s = time.monotonic()
        rules = versioned_rules(self._wiring, on_network(forward, network), number=self._number)
        # The inner rules come first, so that no packet enters without them.
        self._controller.install(rules.inner, plan_id=2 * self._number + 2)
        self._controller.install(rules.entry, plan_id=2 * self._number + 3)
        return routed_s, len(rules.inner) + len(rules.entry)
