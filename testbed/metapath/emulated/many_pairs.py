"""Runs the plain streams of many pairs at once on real switches, inside the sandbox; cables die under all of them
together."""

import time
from dataclasses import replace

from fec.protocol.wire import STREAM_UDP_PORT
from testbed.emulation.control.controller_link import ControllerLink
from testbed.emulation.network.open_vswitch.switches import flush_flow_cache
from testbed.machines.adapters.platform import here
from testbed.metapath.cable_states import without_links
from testbed.metapath.emulated.fabric import install_escapes, stream_together
from testbed.metapath.emulated.recomputed_routes import Routes
from testbed.metapath.escape_rules import escape_rules_together
from testbed.metapath.labelled_paths import LabelledPathPair, labelled_path_pair
from testbed.metapath.many_pairs import KNOWN_PATHS, ManyPairsPlan
from testbed.metapath.plan import MetapathRun, Rerouting
from testbed.model.wiring import Wiring, wire
from testbed.openflow.rules import FlowRule, stream_rules
from testbed.routing import route_by_name
from testbed.routing.label_split.spraying import spray
from testbed.stream.mobility import on_network
from topologies.network import LinkId, Network

_WARM_EVERY = 4096


def run_many_pairs(plan: ManyPairsPlan) -> tuple[MetapathRun, ...]:
    """The plan on a network of its own: a run a pair. CapabilityError where this machine cannot, InvalidRunError where
    an end dies."""
    wiring = wire(plan.network)
    warm = range(0, 65536, _WARM_EVERY) if plan.routing == "capillary" else range(1)
    with here(wiring) as platform:
        routes, groups = Routes(), 0
        paths: list[LabelledPathPair | None] = [None] * len(plan.pairs)
        if plan.routing == "ft-drb":
            known = [labelled_path_pair(plan.network, *ends, most=KNOWN_PATHS) for ends in plan.pairs]
            paths = [*known]
            parts = escape_rules_together(wiring, known, dead=plan.dead)
            rules, groups = install_escapes(platform.controller, parts)
        else:
            method = "capillary" if plan.routing == "capillary" else "single"
            every = _route_all(plan, wiring, plan.network, method)
            platform.controller.install(every, plan_id=1)
            rules = len(every)
        if plan.routing == "recomputed":
            routes = _ShortestPaths(plan, wiring, platform.controller)
        pairs = [(plan.pair_plan(number), known) for number, known in enumerate(paths)]
        runs = stream_together(platform, pairs, plan.faults, lambda _: None, routes=routes, warm=warm)
    return tuple(replace(run, counters={**run.counters, "rules": rules, "groups": groups}) for run in runs)


def _route_all(plan: ManyPairsPlan, wiring: Wiring, network: Network, method: str) -> list[FlowRule]:
    """Every pair's stream by that method over that network (all links of the whole, or those that are left)."""
    rules: list[FlowRule] = []
    for source, sink in plan.pairs:
        split = spray(route_by_name(network, source, sink, method))
        rules += stream_rules(wiring, on_network(split, plan.network), udp_port=STREAM_UDP_PORT)
    return rules


class _ShortestPaths(Routes):
    """Of all pairs, computed again over the links that are left: port changes that follow each other closely are routed
    round together."""

    def __init__(self, plan: ManyPairsPlan, wiring: Wiring, controller: ControllerLink) -> None:
        super().__init__()
        self._plan, self._wiring, self._controller = plan, wiring, controller
        self._down: frozenset[LinkId] = frozenset()
        self._routed: frozenset[LinkId] = frozenset()
        self._notified_s = 0.0

    def avoid(self, down: frozenset[LinkId], notified_s: float) -> None:
        """Remember them."""
        self._down, self._notified_s = down, notified_s

    def settle(self) -> None:
        """Route round all that are down now."""
        if self._down == self._routed:
            return
        self._routed = self._down
        rules = _route_all(self._plan, self._wiring, without_links(self._plan.network, self._routed), "single")
        routed_s = time.monotonic()
        self._controller.install(rules, plan_id=2 + len(self.done))
        flush_flow_cache()
        self.done.append(
            Rerouting(notified_s=self._notified_s, routed_s=routed_s, done_s=time.monotonic(), rules=len(rules))
        )
