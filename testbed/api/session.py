"""``testbed.session``: a network of real switches held up for an ordinary process: a script, a test, a notebook.

The switches stand in a sandbox of their own. This process only asks: every call is a request over a connection of its
own, so that threads may call at once, and Ctrl-C ends the call and leaves the network up. With this process everything
ends, also by kill -9.
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

_MAX_ENDS = 64
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
_COUNTS = re.compile(r"(\d+) packets transmitted, (\d+) received")
_TIMES = re.compile(r"= ([\d.]+)/([\d.]+)/([\d.]+)/")


@dataclass(frozen=True, kw_only=True)
class Ping:
    """Echoes between two hosts; round trip times in seconds, None where nothing came back."""

    sent: int
    received: int
    least_s: float | None
    mean_s: float | None
    greatest_s: float | None

    @property
    def loss(self) -> float:
        """Share of echoes that did not come back."""
        return 1 - self.received / self.sent if self.sent else 0.0


@dataclass(frozen=True, kw_only=True)
class InstalledRoute:
    """A route in force: rules that the switches took, seconds until all had confirmed."""

    rules: int
    seconds: float


@with_checked_methods
class Session(Shown, AbstractContextManager["Session"]):
    """Builds the network and holds it up until the with block ends; every pair of hosts can talk at once, over shortest
    paths. Nodes are called by the network's own names, links ``a->b``. Thread-safe.

    ``name``: by which ``testbed exec NAME HOST -- CMD`` and ``testbed attach NAME`` reach it. ``ends``: switches that
    get a host of their own outside the model, over which routes between switches are streamed (None: all, where there
    are 64 at most). ``mtu`` in bytes; ``shape`` false: links are not held to capacity and delay. Raises CapabilityError
    where this machine cannot emulate, TopologyError and InputError for arguments that make no network.

        with testbed.session("swiss-t1") as session:
            session.fail("s1->s2")
            print(session.exec("t0", ["ip", "address"]).stdout)
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
        chosen = list(ends) if ends is not None else switches if len(switches) <= _MAX_ENDS else []
        for node in chosen:
            self.network.node(node)
        task = {"do": "hold", "network": self.network, "ends": chosen, "mtu": mtu, "shape": shape}
        self._nodes: dict[str, Json] = {}
        self._mtu = mtu
        self._process: SandboxProcess = SandboxProcess(task, name, progress)
        weakref.finalize(self, self._process.close)

    @property
    def name(self) -> str:
        """By which other processes reach the network."""
        return self._process.name

    @property
    def hosts(self) -> tuple[str, ...]:
        """Between which ``ping`` and streams go: the names of the hosts, of every switch where there is no host."""
        return tuple(node.id for node in self.network.end_points)

    def __repr__(self) -> str:
        return f"Session({self.name!r}: {self.network!r})"

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the network down; may be called twice."""
        self._process.close()

    def exec(
        self,
        host: str,
        argv: Sequence[str],
        *,
        input: str | None = None,
        timeout_s: float | None = None,
        env: Mapping[str, str] | None = None,
        end_point: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in the host and wait: exit code, output, errors. A switch's name: where Open vSwitch's programs
        work; with ``end_point`` the host outside the model that is attached to the switch.

        Raises TimeLimitError after ``timeout_s`` seconds (the program is ended), InputError where it cannot be started.
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
        """Start a program in the host. ``options`` are subprocess.Popen's; signals, pipes and exit code are the
        program's own."""
        host = str(require_type(node_name(host), str, "host", "the id of a node"))
        if isinstance(argv, str) or not all(isinstance(word, str) for word in argv) or not argv:
            raise UsageError(
                'argv: give a program and its arguments as a list, such as ["ip", "address"]'
            )
        self._host(host)
        self._process.check()
        where = options.get("cwd") or "."
        words = program_argv(self.name, host, argv, env, end_point=end_point, cwd=where, owned=True)
        return subprocess.Popen(words, **options)

    def ping(
        self, source: str, target: str, count: int = 3, *, every_s: float = 0.2, wait_s: float = 1.0
    ) -> Ping:
        """Echoes from one host to another, ``every_s`` seconds apart; the last is waited for ``wait_s`` seconds."""
        require_type(count, int, "count", "a whole number of echoes")
        for what, value in (("every_s", every_s), ("wait_s", wait_s)):
            require_type(value, (int, float), what, "seconds")
        if not 1 <= count <= 100_000:
            raise InputError(f"count {count}: give 1 to 100000")
        words = [
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
        done = self.exec(source, words, end_point=True)
        counts, times = _COUNTS.search(done.stdout), _TIMES.search(done.stdout)
        if counts is None:
            raise InputError(
                f"ping from {source} to {target}: {done.stderr.strip() or done.stdout.strip()}"
            )
        least, mean, greatest = (
            (float(ms) / 1e3 for ms in times.groups()) if times else (None, None, None)
        )
        return Ping(
            sent=int(counts[1]),
            received=int(counts[2]),
            least_s=least,
            mean_s=mean,
            greatest_s=greatest,
        )

    def address(self, node: str) -> str:
        """IPv4 address of the node's host."""
        return str(self._host(node)["ip"])

    def fail(
        self, link: str, kind: str = "down", *, loss: float | None = None, one_way: bool = False
    ) -> float:
        """Break a link until it is restored; the monotonic time (``time.monotonic``) at which that was in force.

        ``kind``: "down" (the carrier goes), "blackhole" (packets vanish) or "loss", with the fraction that is lost. A
        link that is broken already is broken in the new way.
        """
        require_type(kind, str, "kind", "down, blackhole or loss")
        require_type(loss, (int, float, type(None)), "loss", "a fraction")
        manner = [
            *kind.split(),
            *([f"{loss:g}"] if kind == "loss" and loss is not None else []),
            *(["one-way"] if one_way else []),
        ]
        return self._change("fail", link, manner=manner)

    def restore(self, link: str) -> float:
        """Repair a link that ``fail`` broke; the monotonic time at which it was whole. InputError where none stands on
        it."""
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
        """Give a link another capacity (bit/s), delay (s) or loss (a fraction of its packets) until it is given the
        next one; the monotonic time at which all was in force. ``reset``: as the network says; streams and bulk
        transfers are predicted for that alone, and refused meanwhile. ``one_way``: of this direction, else of both."""
        values = {"capacity_bps": capacity_bps, "delay_s": delay_s, "loss_fraction": loss}
        settings = {
            name: python_number(value) for name, value in values.items() if value is not None
        }
        settings |= {name: True for name, on in (("reset", reset), ("one_way", one_way)) if on}
        return self._change("configure", link, settings=settings)

    def _change(self, what: str, link: str, **more: object) -> float:
        """Have something done to a link; the monotonic time at which it was in force."""
        link = self._link_text(link)
        return float(self._process.ask({"do": what, "link": link, **more})["at_s"])

    def _link_text(self, link: str | LinkId | Pair) -> str:
        """Return a link as text; a pair of nodes or an id is looked up in the network."""
        return label_of(known_link(link, self.network)) if isinstance(link, tuple) else _text(link)

    def counters(self) -> Mapping[LinkId, LinkCount]:
        """Link -> packets and bytes sent onto the cable, and packets dropped by a full queue; since the network is
        up."""
        rows = self._process.ask({"do": "counters"})["links"]
        return {
            (a, b, key): LinkCount(packets=p, bytes=n, queue_drops=d) for a, b, key, p, n, d in rows
        }

    def capture(self, link: str, path: str | Path) -> Recording:
        """Record what arrives over a link (that direction) into a pcap file until ``stop``, or the end of its with
        block."""
        link = self._link_text(link)
        self._process.check()
        return Recording(self.name, link, Path(path))

    def install(self, route: SplitRoute) -> InstalledRoute:
        """Put a route in force: the coded stream's labels take its paths, everything else of the pair the path of label
        0.

        What was installed for the pair before is replaced without a gap. The way back, where no route was installed for
        it, is disjoint where it can be.
        """
        require_type(route, SplitRoute, "route", "a SplitRoute, as testbed.route(...) makes")
        if route.network.links != self.network.links:
            raise InputError(
                f"the route is of {route.network.name!r}, this session holds {self.network.name!r} up"
            )
        splits = spray(route), disjoint_return_split(self.network, route.source, route.sink)
        done = self._process.ask({"do": "install"}, splits)
        return InstalledRoute(rules=done["rules"], seconds=done["seconds"])

    def stream(
        self,
        source: str,
        sink: str,
        *,
        results: str | Path | None = None,
        progress: ReportProgress | None = None,
        **options: object,
    ) -> AnyResult:
        """A coded stream over this network, judged. ``options``: as of ``testbed.stream_plan``; ``results``: where it
        is kept with its page, as of ``testbed.run``. One measured run goes at a time."""
        from testbed.stream.workload import stream_plan

        plan: Callable[..., StreamPlan] = stream_plan
        return self._run("stream", plan(self.network, source, sink, **options), results, progress)

    def tunnel(self, a: str, b: str, **options: object) -> Tunnel:
        """A tunnel for any program between the hosts at two nodes, until the with block ends: IP packets into coded
        packets over capillary routes, both ways, next to all else. Several may be up at once.

        ``options``: ``mode`` (adaptive, static, none), ``flush_s``, ``order_s``, ``source_packets``, ``playback_s``,
        ``routing``, ``seed``, ``faults`` (``testbed.tunnel.plan.TunnelPlan``). InputError where every path between the
        two crosses one cable.

            with session.tunnel("s1", "s6") as tunnel:
                session.exec("s1", ["ping", "-c", "3", tunnel.address("s6")], end_point=True)
        """
        from testbed.tunnel.plan import build_tunnel

        for name in options:
            if name not in _TUNNEL_OPTIONS:
                raise wrong_argument(
                    "Session.tunnel", name, {known: known for known in _TUNNEL_OPTIONS}
                )
        for node in (a, b):
            self._host(node)
        return Tunnel(
            self._process, build_tunnel(self.network, a, b, link_mtu=self._mtu, **options)
        )

    def bulk(
        self,
        *,
        switching: Switching = "circuit",
        results: str | Path | None = None,
        progress: ReportProgress | None = None,
        **options: object,
    ) -> AnyResult:
        """A collective exchange over this network, judged. ``options``: as of ``testbed.bulk_plan``; links keep their
        capacity; while it runs, switches forward its packets alone. ``results``: as of ``stream``.

        InputError where a fault of ``fail`` stands. An ``mtu`` of 9000 carries whole time frames where switches are in
        user space.
        """
        make_plan: Callable[..., BulkPlan] = bulk_plan
        rates = {link.capacity_bps for link in self.network.links}
        rate = options.get("link_rate_bps")
        if rate is not None and rates != {rate}:
            raise InputError(
                f"bulk: links of {min(rates):g} to {max(rates):g} bit/s here; all must have {rate:g}"
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
        where = None if results is None else Path(results)
        return result_of(workload_of(plan), plan, "emulation", measured, where)

    def _host(self, node: str) -> Json:
        """What the network says of a node's host or of a switch; InputError for a name that is neither."""
        node = str(node_name(node))
        if not self._nodes:
            found = self._process.ask({"do": "describe"})
            listed = [*found["switches"], *found["hosts"]]
            self._nodes = {one["name"]: one for one in listed} | {
                one["node"]: one for one in listed
            }
        if node not in self._nodes:
            raise InputError(
                f"no host {node!r} in {self.network.name!r}; {nearest(node, self._nodes)}"
            )
        return self._nodes[node]


def _text(link: object) -> str:
    return str(require_type(link, str, "link", 'a text such as "s1->s2"'))


session = Session
"""A session of that network, as ``testbed.session(...)``."""
