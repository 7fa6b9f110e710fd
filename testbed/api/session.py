"""``testbed.session``: a network of real switches that a script, a test or a notebook controls.

The switches run in a sandbox process. Every call is a request over a separate connection, so
threads may call at the same time, and Ctrl-C ends the call but not the network. The network ends
with this process, even after kill -9.
"""

from __future__ import annotations

import re
import subprocess
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.api.calculations import network as known_network
from testbed.api.emulated.sandbox_client import SandboxProcess
from testbed.api.runs import AnyResult, result_of
from testbed.api.tunnel import Tunnel
from testbed.bulk.measurements import LinkCount
from testbed.bulk.plan import BulkPlan, Switching
from testbed.bulk.workload import bulk_plan
from testbed.emulation.attach.client import Recording, program_argv
from testbed.errors import InputError, TimeLimitError, UsageError, require_type
from testbed.model.naming.names import NetworkLike, Pair, known_link
from testbed.model.options.arguments import with_checked_methods, wrong_argument
from testbed.model.progress import ReportProgress
from testbed.model.routes import SplitRoute
from testbed.routing.label_split.spraying import disjoint_return_split, spray
from topologies import Json, LinkId, label_of
from topologies.errors import nearest, python_number
from topologies.network import node_name
from topologies.text.shown import Shown

if TYPE_CHECKING:
    from testbed.stream.plan import StreamPlan

# Largest number of switches that all get an additional host by default. If there are more, only
# those that ``ends`` names get one.
_MAX_ENDS = 64
# Names of the options that ``Session.tunnel`` accepts.
_TUNNEL_OPTIONS = (
    "mode",
    "flush_s",
    "order_s",
    "source_packets",
    "playback_s",
    "routing",
    "method",
    "seed",
    "faults",
)
# The summary of ping: packets sent and received, and minimum/mean/maximum in milliseconds.
_COUNTS = re.compile(r"(\d+) packets transmitted, (\d+) received")
_TIMES = re.compile(r"= ([\d.]+)/([\d.]+)/([\d.]+)/")


@dataclass(frozen=True, kw_only=True)
class Ping:
    """The result of a ping between two hosts.

    Attributes:
        sent: Number of echo requests.
        received: Number of echo replies.
        least_s: Minimum round-trip time in seconds; None if no reply arrived.
        mean_s: Mean round-trip time in seconds; None if no reply arrived.
        greatest_s: Maximum round-trip time in seconds; None if no reply arrived.
    """

    sent: int
    received: int
    least_s: float | None
    mean_s: float | None
    greatest_s: float | None

    @property
    def loss(self) -> float:
        """The fraction of echo requests without a reply."""
        return 1 - self.received / self.sent if self.sent else 0.0


@dataclass(frozen=True, kw_only=True)
class InstalledRoute:
    """The result of the installation of a route.

    Attributes:
        rules: Number of rules that the switches installed.
        seconds: Seconds until every switch had confirmed them.
    """

    rules: int
    seconds: float


@with_checked_methods
class Session(Shown, AbstractContextManager["Session"]):
    """A network of real switches, which runs until ``close`` or the end of the with block.

    All hosts reach each other from the start, over shortest paths. Nodes have the names of the
    network, and links are written ``a->b``. A session is thread-safe.

        with testbed.session("swiss-t1") as session:
            session.fail("s1->s2")
            print(session.exec("t0", ["ip", "address"]).stdout)

    Args:
        network: A network, or anything that ``testbed.network`` takes.
        name: The name for ``testbed exec NAME HOST -- CMD`` and ``testbed attach NAME``; None for
            an unused one.
        ends: The switches that get an additional host, which is not part of the network, so that
            streams and tunnels can start and end there. None for all switches if there are at most
            64, else for none.
        mtu: Largest packet in bytes.
        shape: Whether links have the capacity and the delay of the network.
        progress: Called in this thread with the state of the start.

    Attributes:
        network: The network.

    Raises:
        CapabilityError: This machine does not support emulation.
        InputError: Another network has the name, or an argument is outside its range.
        TopologyError: The value makes no network, or a node is unknown.
    """

    def __init__(
        self,
        network: NetworkLike,
        *,
        name: str | None = None,
        ends: Sequence[str] | None = None,
        mtu: int = 1500,
        shape: bool = True,
        progress: ReportProgress | None = None,
    ) -> None:
        self.network = known_network(network)
        mtu = require_type(mtu, int, "mtu", "bytes, a whole number")
        require_type(name, (str, type(None)), "name", "a text")
        switches = [node.id for node in self.network.switches]
        if ends is None:
            ends = switches if len(switches) <= _MAX_ENDS else []
        for node in ends:
            self.network.node(node)
        task = {
            "do": "hold",
            "network": self.network,
            "ends": list(ends),
            "mtu": mtu,
            "shape": shape,
        }
        # The description of each host and switch by name, from the sandbox process.
        self._nodes: dict[str, Json] = {}
        self._mtu = mtu
        self._process: SandboxProcess = SandboxProcess(task, name, progress)
        weakref.finalize(self, self._process.close)

    @property
    def name(self) -> str:
        """The name by which other processes reach the network."""
        return self._process.name

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of the end points: the hosts, or the switches of a network without hosts."""
        return tuple(node.id for node in self.network.end_points)

    def __repr__(self) -> str:
        return f"Session({self.name!r}: {self.network!r})"

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the network down; a second call does nothing."""
        self._process.close()

    def exec(
        self,
        host: str,
        argv: Sequence[str],
        *,
        input: str | None = None,  # noqa: A002 - its name in subprocess.run
        timeout_s: float | None = None,
        env: Mapping[str, str] | None = None,
        end_point: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in a host, and wait until it ends.

        Args:
            host: The host, or a switch, where the programs of Open vSwitch work.
            argv: The program and its arguments.
            input: Text for the program's standard input.
            timeout_s: Seconds after which the program is killed; None for no limit.
            env: Additional environment variables.
            end_point: Whether the program runs in the additional host at a switch (``ends``).

        Returns:
            The exit code, the output and the error output of the program, as text.

        Raises:
            InputError: The host is unknown, or the time limit is outside its range.
            TimeLimitError: The program did not end within its time limit.
        """
        require_type(input, (str, type(None)), "input", "text")
        require_type(timeout_s, (int, float, type(None)), "timeout_s", "seconds")
        if timeout_s is not None and not 0 < timeout_s <= 1e9:
            raise InputError(
                f"timeout_s {timeout_s}: give more than 0 seconds, at most 1e9, or None"
            )
        program = self.popen(
            host,
            argv,
            env=env,
            end_point=end_point,
            stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            errors="surrogateescape",
        )
        with program:
            try:
                out, err = program.communicate(input, timeout_s)
            except subprocess.TimeoutExpired:
                program.kill()
                raise TimeLimitError(
                    f"{argv[0]} in {host}: timed out after {timeout_s:g} s"
                ) from None
            except BaseException:
                program.kill()
                raise
        return subprocess.CompletedProcess(list(argv), program.returncode, out, err)

    def popen(
        self,
        host: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        end_point: bool = False,
        **options: Any,
    ) -> subprocess.Popen[Any]:
        """Start a program in a host, and return it without waiting.

        Args:
            host: The host, or a switch, where the programs of Open vSwitch work.
            argv: The program and its arguments.
            env: Additional environment variables.
            end_point: Whether the program runs in the additional host at a switch (``ends``).
            options: Other arguments of ``subprocess.Popen``.

        Returns:
            A process that passes signals and pipes to the program and ends with its exit code.

        Raises:
            InputError: The host is unknown.
        """
        host = str(require_type(node_name(host), str, "host", "the id of a node"))
        if isinstance(argv, str) or not all(isinstance(word, str) for word in argv) or not argv:
            raise UsageError(
                'argv: give a program and its arguments as a list, such as ["ip", "address"]'
            )
        self._host(host)
        self._process.check()
        folder = options.get("cwd") or "."
        local_argv = program_argv(
            self.name, host, argv, env, end_point=end_point, cwd=folder, owned=True
        )
        return subprocess.Popen(local_argv, **options)

    def ping(
        self, source: str, target: str, count: int = 3, *, every_s: float = 0.2, wait_s: float = 1.0
    ) -> Ping:
        """Send echo requests from one host to another, and return the round-trip times.

        Args:
            source: The host that sends.
            target: The host that replies.
            count: Number of echo requests.
            every_s: Seconds between two requests.
            wait_s: Seconds to wait for the last reply.

        Raises:
            InputError: A host is unknown, a value is outside its range, or ping fails.
        """
        require_type(count, int, "count", "a whole number of echoes")
        require_type(every_s, (int, float), "every_s", "seconds")
        require_type(wait_s, (int, float), "wait_s", "seconds")
        if not 1 <= count <= 100_000:
            raise InputError(f"count {count}: give 1 to 100000")
        argv = [
            "ping",
            "-n",
            "-q",
            "-c",
            str(count),
            "-i",
            f"{every_s:g}",
            "-W",
            f"{wait_s:g}",
            self.address(target),
        ]
        process = self.exec(source, argv, end_point=True)
        counts = _COUNTS.search(process.stdout)
        if counts is None:
            reason = process.stderr.strip() or process.stdout.strip()
            raise InputError(f"ping from {source} to {target}: {reason}")
        sent = int(counts[1])
        received = int(counts[2])
        times = _TIMES.search(process.stdout)
        if times is None:
            return Ping(sent=sent, received=received, least_s=None, mean_s=None, greatest_s=None)
        return Ping(
            sent=sent,
            received=received,
            least_s=float(times[1]) / 1e3,
            mean_s=float(times[2]) / 1e3,
            greatest_s=float(times[3]) / 1e3,
        )

    def address(self, node: str) -> str:
        """Return the IPv4 address of a host, or of the additional host at a switch."""
        return str(self._host(node)["ip"])

    def fail(
        self, link: str, kind: str = "down", *, loss: float | None = None, one_way: bool = False
    ) -> float:
        """Let a link fail until it is restored; a present fault of the link is replaced.

        Args:
            link: The link, as ``a->b``.
            kind: "down" (the link loses its carrier), "blackhole" (packets are dropped and the
                carrier stays) or "loss" (a fraction of the packets is dropped).
            loss: The fraction of packets that is dropped, for the kind "loss".
            one_way: Whether only this direction fails, instead of both.

        Returns:
            The time at which the fault was active, in seconds of ``time.monotonic``.

        Raises:
            InputError: The link is unknown, or the fault is invalid.
        """
        require_type(kind, str, "kind", "down, blackhole or loss")
        require_type(loss, (int, float, type(None)), "loss", "a fraction")
        manner = kind.split()
        if kind == "loss" and loss is not None:
            manner.append(f"{loss:g}")
        if one_way:
            manner.append("one-way")
        return self._change("fail", link, manner=manner)

    def restore(self, link: str) -> float:
        """Repair a link that ``fail`` broke.

        Returns:
            The time at which the link worked again, in seconds of ``time.monotonic``.

        Raises:
            InputError: The link has no fault, or is unknown.
        """
        return self._change("restore", link)

    def configure(
        self,
        link: str,
        *,
        capacity_bps: float | None = None,
        delay_s: float | None = None,
        loss: float | None = None,
        reset: bool = False,
        one_way: bool = False,
    ) -> float:
        """Change the capacity, the delay or the loss of a link.

        Streams and bulk transfers are predicted for the network as it was built. They are refused
        until every changed link is reset.

        Args:
            link: The link, as ``a->b``.
            capacity_bps: The new capacity in bit/s; None to leave it.
            delay_s: The new delay in seconds; None to leave it.
            loss: The fraction of packets that is dropped; None to leave it.
            reset: Whether all three return to the values of the network.
            one_way: Whether only this direction changes, instead of both.

        Returns:
            The time at which the change was active, in seconds of ``time.monotonic``.

        Raises:
            InputError: The link is unknown, or a value is outside its range.
        """
        values = {"capacity_bps": capacity_bps, "delay_s": delay_s, "loss_fraction": loss}
        settings = {
            name: python_number(value) for name, value in values.items() if value is not None
        }
        if reset:
            settings["reset"] = True
        if one_way:
            settings["one_way"] = True
        return self._change("configure", link, settings=settings)

    def _change(self, request: str, link: str, **arguments: object) -> float:
        """Request a change of a link, and return the monotonic time at which it was active."""
        link = self._link_text(link)
        return float(self._process.ask({"do": request, "link": link, **arguments})["at_s"])

    def _link_text(self, link: str | LinkId | Pair) -> str:
        """Return a link as text; a pair of nodes or an id is looked up in the network."""
        if isinstance(link, tuple):
            return label_of(known_link(link, self.network))
        return str(require_type(link, str, "link", 'a text such as "s1->s2"'))

    def counters(self) -> Mapping[LinkId, LinkCount]:
        """Return the counters of each link since the network was built.

        They count the packets and bytes that were sent, and the packets that a full queue dropped.
        """
        rows = self._process.ask({"do": "counters"})["links"]
        counts: dict[LinkId, LinkCount] = {}
        for source, target, key, packets, size_bytes, drops in rows:
            count = LinkCount(packets=packets, bytes=size_bytes, queue_drops=drops)
            counts[source, target, key] = count
        return counts

    def capture(self, link: str, path: str | Path) -> Recording:
        """Record the packets that arrive over a link, in this direction, into a pcap file.

        Args:
            link: The link, as ``a->b``.
            path: The pcap file.

        Returns:
            The recording, which runs until its method ``stop`` or the end of its with block.
        """
        link = self._link_text(link)
        self._process.check()
        return Recording(self.name, link, Path(path))

    def install(self, route: SplitRoute) -> InstalledRoute:
        """Install a route in the switches.

        Packets of a coded stream take the paths of their labels. All other packets of the pair take
        the path of label 0. A present route of the pair is replaced without loss. The return route
        is disjoint if possible; it does not replace a route that was installed for its pair.

        Raises:
            InputError: The route is of another network.
        """
        require_type(route, SplitRoute, "route", "a SplitRoute, as testbed.route(...) makes")
        if route.network.links != self.network.links:
            raise InputError(
                f"the route is of {route.network.name!r}, "
                f"this session holds {self.network.name!r} up"
            )
        forward = spray(route)
        backward = disjoint_return_split(self.network, route.source, route.sink)
        reply = self._process.ask({"do": "install"}, (forward, backward))
        return InstalledRoute(rules=reply["rules"], seconds=reply["seconds"])

    def stream(
        self,
        source: str,
        sink: str,
        *,
        results: str | Path | None = None,
        progress: ReportProgress | None = None,
        **options: object,
    ) -> AnyResult:
        """Send a coded stream over this network and judge it.

        Streams and bulk transfers of a session run one after the other.

        Args:
            source: The node where the stream starts.
            sink: The node where it ends.
            results: The folder in which the run is stored with its page, or None.
            progress: Called in this thread with the state of the run.
            options: Other options of ``testbed.stream_plan``.

        Returns:
            The run, as ``testbed.run`` returns it.

        Raises:
            InputError: An option is invalid, or a link of the network has other settings.
            InvalidRunError: The machine could not keep up.
        """
        from testbed.stream.workload import stream_plan

        make_plan: Callable[..., StreamPlan] = stream_plan
        plan = make_plan(self.network, source, sink, **options)
        return self._run("stream", plan, results, progress)

    def tunnel(self, a: str, b: str, **options: object) -> Tunnel:
        """Open a tunnel between the hosts at two nodes, for any program, until the with block ends.

        The tunnel carries IP packets as coded packets over capillary routes in both directions,
        beside all other traffic. Several tunnels may be open at the same time.

            with session.tunnel("s1", "s6") as tunnel:
                session.exec("s1", ["ping", "-c", "3", tunnel.address("s6")], end_point=True)

        Args:
            a: The node at one end.
            b: The node at the other end.
            options: ``mode`` (adaptive, static or none), ``flush_s``, ``order_s``,
                ``source_packets``, ``playback_s``, ``routing``, ``seed`` and ``faults`` (see
                ``testbed.tunnel.plan.TunnelPlan``).

        Raises:
            InputError: A node is unknown, an option is invalid, or every path between the nodes
                crosses the same cable.
        """
        from testbed.tunnel.plan import build_tunnel

        for name in options:
            if name not in _TUNNEL_OPTIONS:
                spellings = {option: option for option in _TUNNEL_OPTIONS}
                raise wrong_argument("Session.tunnel", name, spellings)
        for node in (a, b):
            self._host(node)
        plan = build_tunnel(self.network, a, b, link_mtu=self._mtu, **options)
        return Tunnel(self._process, plan)

    def bulk(
        self,
        *,
        switching: Switching = "circuit",
        results: str | Path | None = None,
        progress: ReportProgress | None = None,
        **options: object,
    ) -> AnyResult:
        """Carry out a collective exchange over this network and judge it.

        The installed routes and the shortest paths are removed while it runs. With switches in user
        space, give the session an ``mtu`` of 9000, so that they can carry complete time frames.

        Args:
            switching: The switching method, as of ``testbed.bulk_plan``.
            results: The folder in which the run is stored with its page, or None.
            progress: Called in this thread with the state of the run.
            options: Other options of ``testbed.bulk_plan``. The capacity of the links stays.

        Returns:
            The run, as ``testbed.run`` returns it.

        Raises:
            InputError: A fault of ``fail`` is active, or an option is invalid.
            InvalidRunError: The machine could not keep up.
        """
        make_plan: Callable[..., BulkPlan] = bulk_plan
        rates = {link.capacity_bps for link in self.network.links}
        rate = options.get("link_rate_bps")
        if rate is not None and rates != {rate}:
            raise InputError(
                f"bulk: links of {min(rates):g} to {max(rates):g} bit/s here; "
                f"all must have {rate:g}"
            )
        plan = make_plan(self.network, switching=switching, **options)
        plan = replace(plan, network=self.network, rates=None)
        return self._run("bulk", plan, results, progress)

    def _run(
        self,
        name: str,
        plan: StreamPlan | BulkPlan,
        results: str | Path | None,
        progress: ReportProgress | None,
    ) -> AnyResult:
        from testbed.api.workloads.registry import workload_of

        measured = self._process.measured({"do": name}, plan, progress)
        return result_of(workload_of(plan), plan, "emulation", measured, results)

    def _host(self, node: str) -> Json:
        """Return the network's description of a host or switch.

        Args:
            node: A node of the network (which stands for the host at it), or the name of a device.

        Raises:
            InputError: The name is neither.
        """
        node = str(node_name(node))
        if not self._nodes:
            description = self._process.ask({"do": "describe"})
            devices = [*description["switches"], *description["hosts"]]
            self._nodes = {device["name"]: device for device in devices}
            # A host at a switch is described by its node too, and goes before the switch.
            self._nodes |= {device["node"]: device for device in devices}
        if node not in self._nodes:
            raise InputError(
                f"no host {node!r} in {self.network.name!r}; {nearest(node, self._nodes)}"
            )
        return self._nodes[node]


# The name in lower case, because ``testbed.session(...)`` is called like a function.
session = Session
