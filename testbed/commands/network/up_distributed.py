"""``testbed up --machines``: a network over several machines, held up until its prompt ends."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.errors import InvalidRunError, MachineDiedError
from testbed.model.naming.printable import printable
from testbed.report.progress_bar import spinner

if TYPE_CHECKING:
    from testbed.machines.adapters.distributed_network import DistributedNetwork
    from testbed.machines.machines_request import MachinesRequest
    from testbed.openflow.rules import FlowRule
    from topologies.network import LinkId, Network

_LOOK_S = 0.2


def serve_distributed(
    args: argparse.Namespace,
    network: Network,
    ends: Sequence[str],
    requested: MachinesRequest,
    rules: Callable[..., Sequence[FlowRule]],
    captures: Mapping[LinkId, Path],
) -> int:
    """The network up, and a prompt as ``testbed attach`` gives it; exit code 0, 2 where a line from a pipe was no
    command.

    ``rules``: of --routing, for a wiring; ``captures``: files of links that are recorded. MachineDiedError where a
    machine dies meanwhile.
    """
    from testbed.emulation.attach.prompt import give_prompt
    from testbed.emulation.attach.server import control_server
    from testbed.live.adapters.feed import live_watch
    from testbed.live.run_views import idle_network_view
    from testbed.machines.adapters.captures import captured
    from testbed.machines.adapters.cluster import machines_up
    from testbed.machines.adapters.distributed_network import distributed_network, placement_of
    from testbed.machines.adapters.distributed_server import DistributedHandlers
    from testbed.machines.adapters.forwarded_streams import Streams
    from testbed.machines.adapters.rpc_programs import add_all_neighbours
    from testbed.model.wiring import wire

    wiring = wire(network, ends)
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        with spinner(f"building {network.name}"):
            machines = stack.enter_context(machines_up(requested))
            where = placement_of(machines, wiring, requested)
            own = rules(wiring)
            spread = stack.enter_context(
                distributed_network(
                    machines, wiring, where, mtu=args.mtu, shape=not args.no_shape, controlled=bool(own)
                )
            )
            if own:
                spread.install(own, plan_id=1)
            machines.all(add_all_neighbours)
        inside = requested.scheduler is None
        handlers = DistributedHandlers(spread, Streams(machines)).handlers()
        name, close = stack.enter_context(control_server(handlers, inside=inside))
        if name is None:
            raise InvalidRunError("internal error: no control socket was inherited")
        view = partial(idle_network_view, f"{network.name}, {name}", network)
        stack.enter_context(live_watch(view, "the network is up", ask=spread.reading))
        print(banner(spread, time.monotonic() - began, name), flush=True)
        with _watched(spread, close), captured(spread, captures, partial(print, flush=True)):
            return give_prompt(name)


def banner(spread: DistributedNetwork, seconds: float, name: str) -> str:
    """What is up, which part each machine has, and how a host is entered."""
    wiring = spread.wiring
    lines = [
        f"{wiring.network.name}: {len(wiring.hosts)} hosts, {len(wiring.switches)} switches (in user space), "
        f"{len(wiring.cables)} cables, {len(spread.placement.crossing(wiring))} of them between machines, up in {seconds:.1f} s"
    ]
    for number, (machine, facts) in enumerate(zip(spread.machines.names, spread.machines.facts, strict=True)):
        switches = [s.node for s in wiring.switches if spread.machine_of(s.node) == number]
        hosts = [f"{h.node} {h.ip}" for h in wiring.hosts if spread.machine_of(h.node) == number]
        lines.append(f"{machine} ({facts.address}): switches {_some(switches)}; hosts {_some(hosts)}")
    first = wiring.hosts[0].node if wiring.hosts else wiring.switches[0].node
    lines.append(
        f"a program in a host: testbed exec {name} {shlex.quote(first)} -- ip address; a prompt elsewhere: testbed attach {name}; "
        "here help lists the commands, names the nodes, and the end of the input takes the network down"
    )
    return "\n".join(printable(line) for line in lines)


def _some(names: Sequence[str]) -> str:
    most = 8
    return (", ".join(names[:most]) or "none") + (f" and {len(names) - most} more" if len(names) > most else "")


@contextlib.contextmanager
def _watched(spread: DistributedNetwork, close: Callable[[], None]) -> Iterator[None]:
    """Meanwhile a machine that dies ends the prompt: the doors close, and whatever this thread waits for is
    interrupted."""
    ended, lost = threading.Event(), list[MachineDiedError]()

    def look() -> None:
        while not ended.wait(_LOOK_S):
            try:
                spread.machines.check()
            except MachineDiedError as error:
                lost.append(error)
                close()
                os.kill(os.getpid(), signal.SIGINT)
                return

    watch = threading.Thread(target=look, name="watch over machines", daemon=True)
    watch.start()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        if not lost:
            raise
    finally:
        ended.set()
        watch.join()
    if lost:
        lost[0].measured = {"machine": spread.machines.names[lost[0].number]}
        raise lost[0]
