"""A network that a session holds up: switches, a controller, shortest paths, and one measured run at a time over it."""

import itertools
import pickle
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from testbed.bulk.emulated.fabric import run_on
from testbed.bulk.emulated.run import RunOptions
from testbed.bulk.measurements import BulkMeasurements
from testbed.bulk.plan import BulkPlan
from testbed.emulation.attach.protocol import Frame, receive, send
from testbed.emulation.attach.server import Handler, RequestHandlers
from testbed.emulation.control.base_rules import install_shortest_paths, remove_shortest_paths
from testbed.emulation.control.fault_injection import FaultInjector
from testbed.errors import InputError
from testbed.machines.adapters.platform import FromParts, here, occupied_here
from testbed.model.label_split import LabelSplit
from testbed.model.progress import ReportProgress
from testbed.model.wiring import wire
from testbed.openflow.rules import Rules, split_rules
from testbed.stream.emulated.fabric import streams_over
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.tunnel.emulated.tunnel import RunningTunnel, running_tunnel
from testbed.tunnel.plan import TunnelPlan
from topologies.network import Network, label_of

Pair = tuple[str, str]
ProgressTo = Callable[[socket.socket], ReportProgress]
P = TypeVar("P", StreamPlan, BulkPlan)


class SessionNetwork(FromParts):
    """A context manager, inside the sandbox only. ``ends``: switches that get a host of their own outside the model."""

    def __init__(self, network: Network, ends: Sequence[str], *, mtu: int, shape: bool) -> None:
        self._wiring = wire(network, ends)
        self._mtu, self._shape = mtu, shape
        self._measuring = threading.Lock()
        self._installing = threading.Lock()
        self._numbers = itertools.count(1)
        self._tunnels = itertools.count(1)
        self._installed: dict[Pair, tuple[int, Rules]] = {}
        self._chosen: set[Pair] = (
            set()
        )  # of those, routes that were asked for; the others are ways back
        self._aside: set[int] = (
            set()
        )  # of those, what a stream between the same ends has taken out while it runs

    def _build(self, parts: ExitStack) -> None:
        self._platform = parts.enter_context(here(self._wiring, mtu=self._mtu, shape=self._shape))
        self.net, self._controller = self._platform.network, self._platform.controller
        install_shortest_paths(self._wiring)
        self._breaker = FaultInjector(self.net)

    def handlers(self, progress_to: ProgressTo) -> dict[str, Handler]:
        """What ``RequestHandlers`` answers, and install, stream, bulk, tunnel."""
        service = RequestHandlers(self.net, self._breaker)

        def stream(sock: socket.socket, request: Frame) -> None:
            plan = self._own(pickle.loads(request.body), StreamPlan)
            send(sock, {"done": True}, pickle.dumps(self.stream(plan, progress_to(sock))))

        def bulk(sock: socket.socket, request: Frame) -> None:
            standing = service.faults.texts()
            if standing:
                raise InputError(
                    f"bulk: {standing[0]} is active; restore it first, or pass it in faults"
                )
            plan = self._own(pickle.loads(request.body), BulkPlan)
            send(sock, {"done": True}, pickle.dumps(self.bulk(plan, progress_to(sock))))

        def install(sock: socket.socket, request: Frame) -> None:
            splits: tuple[LabelSplit, ...] = pickle.loads(request.body)
            rules, seconds = self.install(splits)
            send(sock, {"rules": rules, "seconds": seconds})

        def tunnel(sock: socket.socket, request: Frame) -> None:
            with self.tunnel(pickle.loads(request.body)) as running:
                send(
                    sock,
                    {"addresses": running.addresses, "device": running.device, "mtu": running.mtu},
                )
                while (asked := receive(sock)) is not None and asked.header.get("do") == "counters":
                    send(sock, running.counters())
                if asked is not None:
                    send(sock, {}, pickle.dumps((running.start_s, running.results())))

        return {
            **service.handlers(),
            "stream": stream,
            "bulk": bulk,
            "install": install,
            "tunnel": tunnel,
        }

    def _own(self, plan: object, kind: type[P]) -> P:
        if not isinstance(plan, kind) or plan.network.links != self._wiring.network.links:
            raise InputError(
                f"the plan is for another network than {self._wiring.network.name!r}, which is up here"
            )
        if getattr(plan, "changes", ()):
            raise InputError("mobility plans are not supported in a session; use testbed.run(plan)")
        changed = next(iter(self.net.configured().items()), None)
        if changed is not None:
            text = f"{label_of(changed[0])} has {changed[1]}"
            raise InputError(
                f"{text}, and predictions are of the network as it was; configure the link with reset"
            )
        return plan

    def install(self, splits: Sequence[LabelSplit]) -> tuple[int, float]:
        """Rules for each split's pair, in place of those that it had; how many, and seconds until every switch
        confirmed. The first split is the route that was asked for, the others are ways back, which leave routes that
        were asked for as they are."""
        count, seconds = 0, 0.0
        self._chosen.add((splits[0].source, splits[0].sink))
        for split in splits:
            if split is not splits[0] and (split.source, split.sink) in self._chosen:
                continue
            rules, pair = split_rules(self._wiring, split), (split.source, split.sink)
            with self._installing:
                number = next(self._numbers)
                seconds += self._put(number, rules)
                before = self._installed.get(pair)
                self._installed[pair] = number, rules
                if before is not None and before[0] not in self._aside:
                    self._take(*before)
            count += len(rules[0])
        return count, seconds

    @contextmanager
    def tunnel(self, plan: TunnelPlan) -> Iterator[RunningTunnel]:
        """A tunnel beside whatever else goes over the network."""
        for one in (plan.there, plan.back):
            self._own(one, StreamPlan)

        @contextmanager
        def installed(rules: Rules) -> Iterator[None]:
            with self._installing:
                number = next(self._numbers)
                self._put(number, rules)
            try:
                yield
            finally:
                with self._installing:
                    self._take(number, rules)

        with running_tunnel(self.net, plan, next(self._tunnels), installed) as running:
            yield running

    def stream(self, plan: StreamPlan, report_progress: ReportProgress) -> StreamMeasurements:
        """The plan's measurements; its rules are there as long as it runs, and then what was installed for its pairs
        before."""
        with self._measuring:
            number = next(self._numbers)
            pairs = [(split.source, split.sink) for split in (plan.forward, plan.backward)]
            own = split_rules(self._wiring, plan.forward, plan.backward)
            try:
                with self._installing:
                    self._aside = {
                        self._installed[pair][0] for pair in pairs if pair in self._installed
                    }
                    for one, rules in self._installed.values():
                        if one in self._aside:
                            self._take(one, rules)
                    self._put(number, own)
                with occupied_here(self.net, self._controller) as platform:
                    return streams_over(platform, (plan,), report_progress, self._breaker)[0]
            finally:
                with self._installing:
                    self._take(number, own)
                    for one, rules in self._installed.values():
                        if one in self._aside:
                            self._put(one, rules)
                    self._aside = set()

    def bulk(self, plan: BulkPlan, report_progress: ReportProgress) -> BulkMeasurements:
        """The plan's measurements; meanwhile no rule but its own forwards anything."""
        with self._measuring, self._installing:
            for number, rules in self._installed.values():
                self._take(number, rules)
            remove_shortest_paths(self._wiring)
            try:
                with occupied_here(self.net, self._controller) as platform:
                    return run_on(platform, plan, report_progress, RunOptions())
            finally:
                install_shortest_paths(self._wiring)
                for number, rules in self._installed.values():
                    self._put(number, rules)

    def _put(self, number: int, rules: Rules) -> float:
        """Install a plan; the seconds until every switch had confirmed."""
        if rules[1]:
            self._platform.route(rules[1])
        return self._controller.install(rules[0], plan_id=number)

    def _take(self, number: int, rules: Rules) -> None:
        self._controller.remove(number)
        if rules[1]:
            self._platform.route(rules[1], add=False)
