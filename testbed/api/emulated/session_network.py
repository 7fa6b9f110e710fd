"""The network of a session: switches, a controller and rules, and one measured run at a time."""

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
from testbed.machines.adapters.platform import FromParts, here, use_running_network
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

# Source and destination of a route.
Pair = tuple[str, str]
# Returns a function that sends progress over a connection.
ProgressTo = Callable[[socket.socket], ReportProgress]
P = TypeVar("P", StreamPlan, BulkPlan)


class SessionNetwork(FromParts):
    """The network of a session, inside the sandbox; it runs until the end of the with block."""

    def __init__(self, network: Network, ends: Sequence[str], *, mtu: int, shape: bool) -> None:
        """Prepare the network; the with statement builds it.

        Args:
            network: The network.
            ends: The switches that get an additional host, which is not part of the network.
            mtu: Largest packet in bytes.
            shape: Whether links have the capacity and the delay of the network.
        """
        self._wiring = wire(network, ends)
        self._mtu = mtu
        self._shape = shape
        # Held during a measured run.
        self._measuring = threading.Lock()
        # Held while rules change.
        self._installing = threading.Lock()
        # Numbers by which the controller knows a set of rules.
        self._numbers = itertools.count(1)
        self._tunnels = itertools.count(1)
        # The number and the rules of the route that is installed for each pair.
        self._installed: dict[Pair, tuple[int, Rules]] = {}
        # The pairs whose route was requested; those of the other pairs are return routes.
        self._requested: set[Pair] = set()
        # Numbers of the installed rules that are removed while a stream of the same pair runs.
        self._aside: set[int] = set()

    def _build(self, parts: ExitStack) -> None:
        self._platform = parts.enter_context(here(self._wiring, mtu=self._mtu, shape=self._shape))
        self.net = self._platform.network
        self._controller = self._platform.controller
        install_shortest_paths(self._wiring)
        self._breaker = FaultInjector(self.net)

    def handlers(self, progress_to: ProgressTo) -> dict[str, Handler]:
        """Return the handlers of all requests: those of ``RequestHandlers``, and the session's.

        Args:
            progress_to: Returns the function that sends progress over a connection.
        """
        service = RequestHandlers(self.net, self._breaker)

        def stream(sock: socket.socket, request: Frame) -> None:
            plan = self._checked_plan(pickle.loads(request.body), StreamPlan)
            measured = self.stream(plan, progress_to(sock))
            send(sock, {"done": True}, pickle.dumps(measured))

        def bulk(sock: socket.socket, request: Frame) -> None:
            faults = service.faults.texts()
            if faults:
                raise InputError(
                    f"bulk: {faults[0]} is active; restore it first, or pass it in faults"
                )
            plan = self._checked_plan(pickle.loads(request.body), BulkPlan)
            measured = self.bulk(plan, progress_to(sock))
            send(sock, {"done": True}, pickle.dumps(measured))

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
                message = receive(sock)
                while message is not None and message.header.get("do") == "counters":
                    send(sock, running.counters())
                    message = receive(sock)
                # None: the client has disconnected.
                if message is not None:
                    send(sock, {}, pickle.dumps((running.start_s, running.results())))

        return {
            **service.handlers(),
            "stream": stream,
            "bulk": bulk,
            "install": install,
            "tunnel": tunnel,
        }

    def _checked_plan(self, plan: object, kind: type[P]) -> P:
        """Return the plan, or raise InputError if the predictions do not hold for this network."""
        name = self._wiring.network.name
        if not isinstance(plan, kind) or plan.network.links != self._wiring.network.links:
            raise InputError(f"the plan is for another network than {name!r}, which is up here")
        if getattr(plan, "changes", ()):
            raise InputError("mobility plans are not supported in a session; use testbed.run(plan)")
        settings = self.net.configured()
        if settings:
            link = next(iter(settings))
            raise InputError(
                f"{label_of(link)} has {settings[link]}, and predictions are of the network as it "
                "was; configure the link with reset"
            )
        return plan

    def install(self, splits: Sequence[LabelSplit]) -> tuple[int, float]:
        """Install rules for the pair of each split, in place of the present rules of the pair.

        Args:
            splits: First the route that was requested, then return routes. A return route does not
                replace a route that was requested.

        Returns:
            The number of rules, and the seconds until every switch had confirmed them.
        """
        count = 0
        seconds = 0.0
        requested = splits[0]
        self._requested.add((requested.source, requested.sink))
        for split in splits:
            pair = (split.source, split.sink)
            if split is not requested and pair in self._requested:
                continue
            rules = split_rules(self._wiring, split)
            with self._installing:
                number = next(self._numbers)
                seconds += self._put(number, rules)
                previous = self._installed.get(pair)
                self._installed[pair] = (number, rules)
                # The new rules are installed before the previous ones are removed, so that no
                # packet is lost.
                if previous is not None and previous[0] not in self._aside:
                    self._take(*previous)
            count += len(rules[0])
        return count, seconds

    @contextmanager
    def tunnel(self, plan: TunnelPlan) -> Iterator[RunningTunnel]:
        """Run a tunnel until the end of the with block, beside all other traffic."""
        for stream_plan in (plan.there, plan.back):
            self._checked_plan(stream_plan, StreamPlan)

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
        """Carry out a stream and return its measurements.

        The stream's rules replace the installed rules of its pairs while it runs.
        """
        with self._measuring:
            stream_number = next(self._numbers)
            pairs = [(split.source, split.sink) for split in (plan.forward, plan.backward)]
            stream_rules = split_rules(self._wiring, plan.forward, plan.backward)
            try:
                with self._installing:
                    self._aside = {
                        self._installed[pair][0] for pair in pairs if pair in self._installed
                    }
                    for number, rules in self._installed.values():
                        if number in self._aside:
                            self._take(number, rules)
                    self._put(stream_number, stream_rules)
                with use_running_network(self.net, self._controller) as platform:
                    return streams_over(platform, (plan,), report_progress, self._breaker)[0]
            finally:
                with self._installing:
                    self._take(stream_number, stream_rules)
                    for number, rules in self._installed.values():
                        if number in self._aside:
                            self._put(number, rules)
                    self._aside = set()

    def bulk(self, plan: BulkPlan, report_progress: ReportProgress) -> BulkMeasurements:
        """Carry out a collective exchange and return its measurements.

        The installed routes and the shortest paths are removed while it runs.
        """
        with self._measuring, self._installing:
            for number, rules in self._installed.values():
                self._take(number, rules)
            remove_shortest_paths(self._wiring)
            try:
                with use_running_network(self.net, self._controller) as platform:
                    return run_on(platform, plan, report_progress, RunOptions())
            finally:
                install_shortest_paths(self._wiring)
                for number, rules in self._installed.values():
                    self._put(number, rules)

    def _put(self, number: int, rules: Rules) -> float:
        """Install rules, and return the seconds until every switch had confirmed them.

        Args:
            number: Id of this set of rules at the controller.
            rules: The flow rules, and the kernel's routes.
        """
        if rules[1]:
            self._platform.route(rules[1])
        return self._controller.install(rules[0], plan_id=number)

    def _take(self, number: int, rules: Rules) -> None:
        """Remove the rules that ``_put`` installed under a number."""
        self._controller.remove(number)
        if rules[1]:
            self._platform.route(rules[1], add=False)
