"""``testbed up``: build a network of real switches and give Mininet's prompt on it."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.commands.answer import start_live
from testbed.commands.arguments import LiveOptions, add_options, adder
from testbed.commands.parsing import read_ends
from testbed.commands.several_machines import (
    MachineOptions,
    enter_unless_elsewhere,
    machines_request,
    report_invalid_run,
)
from testbed.emulation.sandbox.control_socket import unused_name
from testbed.errors import InputError, InvalidRunError, MachineDiedError
from testbed.model.naming.names import parse_captures
from testbed.model.naming.printable import printable
from testbed.model.options import kinds
from testbed.model.options.option import ENDS, ROUTED, RUN
from testbed.report.progress_bar import spinner
from testbed.report.streams import complain

if TYPE_CHECKING:
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.machines.adapters.distributed_network import DistributedNetwork
    from testbed.machines.adapters.platform import Platform
    from testbed.machines.machines_request import MachinesRequest
    from testbed.model.wiring import Wiring
    from testbed.openflow.rules import Rules
    from topologies.network import LinkId, Network


DESCRIPTION = (
    "Build a network of real switches, and open a prompt with Mininet's commands. Commands may "
    "also come from a pipe."
)
# At most this number of names is listed for each machine.
_MAX_NAMES = 8
# Interval at which the machines of a network are checked.
_CHECK_INTERVAL_S = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = adder(parser)
    ends = adder(parser, ENDS)
    routed = adder(parser, ROUTED)
    running = adder(parser, RUN)
    add(
        "network",
        metavar="NETWORK",
        help="network: a catalogue name (see testbed topology list) or a file",
    )
    routed(
        "--routing",
        dest="route",
        metavar="METHOD",
        help="install the routes of this routing method from --from to --to and back, split by "
        "labels",
    )
    ends("--from", dest="source", metavar="NODE", help="first end of --routing")
    ends("--to", dest="sink", metavar="NODE", help="second end of --routing")
    running(
        "--pcap",
        action="append",
        default=[],
        metavar="LINK[=FILE]",
        help="record the packets that arrive over link a->b (repeatable)",
    )
    ends(
        "--mtu",
        type=kinds.mtu_bytes,
        default=1500,
        metavar="SIZE",
        help="MTU of every interface, in bytes (default: 1500)",
    )
    running("--name", help="name of the network for testbed exec and attach (default: up-PROCESS)")
    running(
        "--controller",
        metavar="remote[,IP[,PORT]]",
        help="connect the switches to your own controller (default address: 127.0.0.1,6653)",
    )
    ends(
        "--ipv6",
        action="store_true",
        help="also give hosts IPv6 addresses, fd00::N (default: IPv6 is off)",
    )
    ends(
        "--no-shaping",
        dest="no_shape",
        action="store_true",
        help="do not limit the rate of links, and do not delay packets",
    )
    add_options(parser, MachineOptions, LiveOptions)


def run(args: argparse.Namespace) -> int:
    """Build the network and give the prompt.

    Returns:
        The exit code: 0, or 2 if a line from a pipe was not a command.
    """
    from testbed.emulation.machine.capabilities import require_emulation
    from testbed.emulation.machine.fabric import require_delays
    from testbed.emulation.sandbox.sandbox import in_sandbox
    from testbed.emulation.sandbox.way_out import open_way_out
    from testbed.live.run_views import idle_network_view
    from topologies import load_network

    network = load_network(args.network)
    captures = parse_captures(args.pcap, network, named=False)
    ends = _end_points(args, network)
    machines = machines_request(args, "emulation")
    if captures and machines is not None:
        raise InputError(
            "--pcap: on one machine only; leave out --machines, or record in a host with "
            "testbed exec"
        )
    remote = _remote_controller(args, machines is not None)
    if args.ipv6:
        from testbed.emulation.control.ipv6 import require_mtu

        require_mtu(args.mtu)
    require_emulation()
    if not args.no_shape:
        require_delays(network)
    start_live(args, partial(idle_network_view, network.name, network))
    if remote is not None and not in_sandbox():
        open_way_out(*remote)
    enter_unless_elsewhere(machines, name=args.name or unused_name("up"))
    with report_invalid_run(as_json=False):
        return _serve(args, network, ends, machines, captures)


def _remote_controller(args: argparse.Namespace, spread: bool) -> tuple[str, int] | None:
    """Return the address and the port of the user's controller, or None without one.

    Args:
        args: The options on the command line.
        spread: Whether the network is spread over several machines.

    Raises:
        InputError: Another option is not possible with a controller of the user.
    """
    if args.controller is None:
        return None
    from testbed.emulation.control.remote_controller import parse_controller

    address = parse_controller(args.controller)
    if args.route is not None:
        raise InputError(
            f"--routing {args.route}: its labels are rules of the testbed's own controller, and "
            "with --controller remote switches obey yours alone; leave one of the two out"
        )
    if spread:
        raise InputError("--controller remote: on one machine only; leave out --machines")
    return address


def _end_points(args: argparse.Namespace, network: Network) -> list[str]:
    """Return the switches that get an additional host, and the ends of the route.

    In a network without hosts every switch gets one.
    """
    if args.route is None and (args.source or args.sink):
        raise InputError("--from and --to belong to --routing METHOD; give all three or none")
    if args.route is not None and not (args.source and args.sink):
        raise InputError(f"--routing {args.route}: give its end points with --from and --to")
    read_ends(args, network)
    ends = [node for node in (args.source, args.sink) if node]
    if not network.hosts:
        ends += [switch.id for switch in network.switches if switch.id not in ends]
    return ends


def _serve(
    args: argparse.Namespace,
    network: Network,
    ends: list[str],
    machines: MachinesRequest | None,
    captures: dict[LinkId, Path],
) -> int:
    """Build the network, give the prompt, and return the exit code.

    Args:
        args: The options on the command line.
        network: The network.
        ends: The switches that get an additional host.
        machines: The machines of the network; None for this one.
        captures: The pcap file of each link that is recorded.

    Raises:
        MachineDiedError: A machine of the network died.
    """
    from testbed.emulation.attach.prompt import give_prompt
    from testbed.emulation.attach.server import RequestHandlers, control_server
    from testbed.emulation.control.ipv6 import ipv6_address
    from testbed.emulation.network.kernel.link_meter import read_counters
    from testbed.live.adapters.feed import live_watch
    from testbed.live.run_views import idle_network_view
    from testbed.machines.adapters.platform import Here
    from testbed.model.wiring import wire

    wiring = wire(network, ends)
    began_s = time.monotonic()
    with ExitStack() as stack:
        with spinner(f"building {network.name}"):
            up = _build(stack, args, wiring, machines)
        if isinstance(up, Here):
            handlers = RequestHandlers(up.network).handlers()
        else:
            from testbed.machines.adapters.distributed_server import DistributedHandlers

            handlers = DistributedHandlers(up).handlers()
        inside = machines is None or machines.scheduler is None
        name, close = stack.enter_context(control_server(handlers, inside=inside))
        if name is None:
            raise InvalidRunError("internal error: no control socket was inherited")
        view = partial(idle_network_view, f"{network.name}, {name}", network, control=name)
        watched = partial(live_watch, view, "the network is up")
        seconds = time.monotonic() - began_s
        if isinstance(up, Here):
            for link, path in captures.items():
                up.network.start_capture(link, path)
            stack.enter_context(watched(partial(read_counters, up.network.link_meter())))
            introduction = _introduction(up.network, seconds, name)
            words_at = up.network.words_at
        else:
            stack.enter_context(watched(ask=up.reading))
            stack.enter_context(ended_with_machines(up, close))
            introduction = banner(up, seconds, name)
            words_at = None
        # At the prompt Ctrl-C ends the command of a node and not this one. The introduction is
        # printed last, because the user may press Ctrl-C as soon as it appears, and Python may drop
        # an interrupt during an import.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if args.ipv6 and (host := next(iter(wiring.hosts), None)):
            introduction += printable(f"; {host.name} is {ipv6_address(host.ip)}, and so on")
        print(introduction, flush=True)
        return give_prompt(name, words_at)


def _build(
    stack: ExitStack, args: argparse.Namespace, wiring: Wiring, machines: MachinesRequest | None
) -> Platform:
    """Build the network and install its rules, and return it; ``stack`` takes it down.

    Args:
        stack: The network runs until the end of this stack.
        args: The options on the command line.
        wiring: The wiring of the network.
        machines: The machines of the network; None for this one.
    """
    from testbed.emulation.control.remote_controller import RemoteController, parse_controller
    from testbed.machines.adapters.rpc_programs import add_all_neighbours, add_ipv6_here

    rules, routes = _route_rules(args, wiring.network, wiring)
    options: dict[str, Any] = {
        "mtu": args.mtu,
        "shape": not args.no_shape,
        "controlled": bool(rules),
    }
    remote = None
    if args.controller is not None:
        remote = RemoteController(*parse_controller(args.controller))
        options["controller_port"] = remote.port
    up = _open_platform(stack, wiring, machines, options)
    if rules:
        up.install(rules, plan_id=1)
    if remote is None:
        up.route(routes)
        up.all(add_all_neighbours)
    else:
        problem = remote.problem()
        if problem is not None:
            complain(
                f"note: {args.controller}: {problem}; switches forward nothing until a "
                "controller answers there"
            )
    if args.ipv6:
        up.all(add_ipv6_here, remote is None)
    return up


def _open_platform(
    stack: ExitStack, wiring: Wiring, machines: MachinesRequest | None, options: dict[str, Any]
) -> Platform:
    """Build the network on this machine or on the requested machines."""
    if machines is None:
        from testbed.machines.adapters.platform import here

        return stack.enter_context(here(wiring, **options))
    from testbed.machines.adapters.distributed_network import over_machines

    return stack.enter_context(over_machines(machines, wiring, lambda _: None, **options))


def _route_rules(args: argparse.Namespace, network: Network, wiring: Wiring) -> Rules:
    """Return the rules and the routes of hosts for ``--routing`` in both directions, or none."""
    if args.route is None:
        return (), ()
    from testbed.openflow.rules import split_rules
    from testbed.stream.workload import stream_plan

    plan = stream_plan(
        network, args.source, args.sink, method=args.route, faults=(), duration_s=1.0
    )
    return split_rules(wiring, plan.forward, plan.backward)


def _introduction(net: EmulatedNetwork, seconds: float, name: str) -> str:
    wiring = net.wiring
    kind = "in the kernel" if net.datapath == "kernel" else "in user space"
    return (
        f"{printable(wiring.network.name)}: {len(wiring.hosts)} hosts, {len(wiring.switches)} "
        f"switches ({kind}), {len(wiring.cables)} cables, up in {seconds:.1f} s; help lists the "
        f"commands, names the nodes; testbed attach {name} reaches it too"
    )


def banner(spread: DistributedNetwork, seconds: float, name: str) -> str:
    """Describe a network over several machines: its size, each machine's part, and its commands.

    Args:
        spread: The network.
        seconds: The duration of its set-up.
        name: The name for ``testbed exec`` and ``testbed attach``.
    """
    wiring = spread.wiring
    lines = [
        f"{wiring.network.name}: {len(wiring.hosts)} hosts, {len(wiring.switches)} switches (in "
        f"user space), {len(wiring.cables)} cables, {len(spread.placement.crossing(wiring))} of "
        f"them between machines, up in {seconds:.1f} s"
    ]
    machines = zip(spread.machines.names, spread.machines.facts, strict=True)
    for number, (machine, facts) in enumerate(machines):
        switches = [s.node for s in wiring.switches if spread.machine_of(s.node) == number]
        hosts = [f"{h.node} {h.ip}" for h in wiring.hosts if spread.machine_of(h.node) == number]
        lines.append(
            f"{machine} ({facts.address}): switches {_some(switches)}; hosts {_some(hosts)}"
        )
    first = wiring.hosts[0].node if wiring.hosts else wiring.switches[0].node
    lines.append(
        f"a program in a host: testbed exec {name} {shlex.quote(first)} -- ip address; "
        f"a prompt elsewhere: testbed attach {name}; here "
        "help lists the commands, names the nodes, and the end of the input takes the network down"
    )
    return "\n".join(printable(line) for line in lines)


def _some(names: Sequence[str]) -> str:
    """Return the first names and the number of the others."""
    text = ", ".join(names[:_MAX_NAMES]) or "none"
    if len(names) > _MAX_NAMES:
        text += f" and {len(names) - _MAX_NAMES} more"
    return text


@contextmanager
def ended_with_machines(spread: DistributedNetwork, close: Callable[[], None]) -> Iterator[None]:
    """End the prompt in the with block if a machine dies.

    Args:
        spread: The network.
        close: Closes the network's control socket.

    Raises:
        MachineDiedError: A machine died.
    """
    ended = threading.Event()
    deaths: list[MachineDiedError] = []

    def watch_machines() -> None:
        while not ended.wait(_CHECK_INTERVAL_S):
            try:
                spread.machines.check()
            except MachineDiedError as error:
                deaths.append(error)
                close()
                # Interrupts whatever the main thread waits for.
                os.kill(os.getpid(), signal.SIGINT)
                return

    watch = threading.Thread(target=watch_machines, name="watch over machines", daemon=True)
    watch.start()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        if not deaths:
            raise
    finally:
        ended.set()
        watch.join()
    if deaths:
        death = deaths[0]
        death.measured = {"machine": spread.machines.names[death.number]}
        raise death
