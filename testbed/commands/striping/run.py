"""``testbed run``: start a parallel program on emulated hosts, one process a compute node, with I/O listeners
beside."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from testbed.commands.answer import start_live
from testbed.commands.arguments import LiveOptions, add_options, adder
from testbed.commands.parsing import OneLineParser
from testbed.commands.several_machines import (
    MachineOptions,
    enter_unless_elsewhere,
    machines_request,
    said_when_lost,
)
from testbed.emulation.attach.server import RequestHandlers, control_server
from testbed.emulation.machine.capabilities import require_emulation
from testbed.emulation.network.kernel.link_meter import read_counters
from testbed.emulation.sandbox.control_socket import unused_name
from testbed.errors import InputError
from testbed.live.adapters.feed import live_watch
from testbed.live.events import RunView
from testbed.live.run_views import idle_network_view
from testbed.machines.adapters.platform import Here
from testbed.machines.machines_request import MachinesRequest
from testbed.model.options import kinds
from testbed.model.options.option import ENDS, ROUTED, RUN, SENT, Only
from testbed.striping.placement import Placement, place
from topologies import load_network

if TYPE_CHECKING:
    from testbed.striping.emulated.program_run import ProgramEnd

    Run = Callable[..., ProgramEnd]

DESCRIPTION = (
    "Run a program on the hosts of an emulated network: one process a compute node, each told its rank, and I/O "
    "listeners for striped files on other hosts. File "
    "names call the I/O nodes by the network's host names or p1, p2, ..."
)


_HERE = Only(
    when=lambda a: a.machines is None,
    needs="a program on one machine, without --machines (its launcher starts ranks in hosts of its own machine only)",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add, ends, sent, routed, running = (
        adder(parser, group) for group in (None, ENDS, SENT, ROUTED, RUN)
    )
    add(
        "network",
        metavar="NETWORK",
        help="a network with hosts (swiss-t1, crossbar:8, ...) or a file",
    )
    ends(
        "--compute-nodes",
        type=kinds.some,
        required=True,
        metavar="N",
        help="processes of the program, one a host",
    )
    ends("--io-nodes", type=kinds.some, required=True, metavar="M", help="hosts with a listener")
    sent(
        "--subfile-dir",
        dest="root",
        type=Path,
        metavar="DIR",
        help="directory for subfiles (default: a new directory of results)",
    )
    routed("--routing", metavar="METHOD", help="static method (default: the network's own)")
    ends(
        "--link-rate",
        type=kinds.rate_bps,
        metavar="RATE",
        help="of every link (default: the network's own)",
    )
    ends("--mtu", type=kinds.mtu_bytes, default=9000, metavar="SIZE", help="of every interface")
    ends(
        "--no-shaping",
        dest="no_shape",
        action="store_true",
        help="do not hold links to their capacity and delay",
    )
    running(
        "--listener-timeout",
        dest="timeout",
        type=kinds.answering,
        default=2.0,
        metavar="TIME",
        help="until a silent listener is given up",
    )
    running(
        "--time-limit",
        type=kinds.time_limit,
        metavar="TIME",
        help="end the program after this time",
    )
    running(
        "--mpi",
        action="store_true",
        help="start the processes as ranks of one MPI program too (MPICH: the extra `mpi`)",
        only=_HERE,
    )
    add_options(parser, MachineOptions, LiveOptions)
    running(
        "--name", help="by which testbed exec and attach reach the network (default run-PROCESS)"
    )
    running(
        "--results",
        type=Path,
        default=Path("results"),
        help="directory for results (default results)",
        only=Only(
            when=lambda a: a.root is None,
            needs="a run without --subfile-dir, which says where subfiles lie",
        ),
    )
    parser.usage = (
        f"{parser.prog} NETWORK --compute-nodes N --io-nodes M [OPTION ...] -- PROGRAM ..."
    )
    assert isinstance(parser, OneLineParser)
    parser.trailing = "command_words"
    parser.set_defaults(command_words=())


def run(args: argparse.Namespace) -> int:
    """Exit code: 0, or that of the first process that failed."""
    command = _command(args)
    placement = _placement(args)
    machines = machines_request(args, "emulation")
    run_mpi = _mpi_runner() if args.mpi else None
    require_emulation()
    start_live(args)
    enter_unless_elsewhere(machines, name=args.name or unused_name("run"))
    root = args.root if args.root is not None else _new_root(args.results)
    with said_when_lost(as_json=False):
        end = _carried_out(args, command, placement, root, machines, run_mpi)
    if end.rank is not None:
        node = placement.compute[end.rank]
        print(
            f"testbed: rank {end.rank} on {node} ended with exit code {end.exit_code}",
            file=sys.stderr,
        )
    print(f"testbed: subfiles in {root}", file=sys.stderr)
    return end.exit_code


def _view(command: list[str], placement: Placement) -> Callable[[], RunView]:
    words = shorten(shlex.join([Path(command[0]).name, *command[1:]]), 60)
    return partial(idle_network_view, f"{words} on {placement.network.name}", placement.network)


def _carried_out(
    args: argparse.Namespace,
    command: list[str],
    placement: Placement,
    root: Path,
    machines: MachinesRequest | None,
    run_mpi: Run | None,
) -> ProgramEnd:
    """The program's end; MachineDiedError, with the ranks that had ended, where a machine dies."""
    from testbed.striping.emulated.program_run import ProgramNetwork

    network = ProgramNetwork(
        placement,
        root,
        mtu=args.mtu,
        shape=not args.no_shape,
        timeout_s=args.timeout,
        machines=machines,
    )
    with ExitStack() as stack:
        platform, watched = (
            stack.enter_context(network).platform,
            partial(live_watch, _view(command, placement)),
        )
        if isinstance(platform, Here):
            stack.enter_context(control_server(RequestHandlers(network.net).handlers()))
            stack.enter_context(
                watched("the program runs", partial(read_counters, network.net.link_meter()))
            )
        else:
            from testbed.machines.adapters.distributed_server import DistributedHandlers

            stack.enter_context(control_server(DistributedHandlers(platform).handlers()))
            stack.enter_context(watched("the program runs", ask=platform.reading))
        start = network.run if run_mpi is None else partial(run_mpi, network)
        return start(command, prefixed=sys.stdout.isatty(), time_limit_s=args.time_limit)


def _mpi_runner() -> Run:
    """CapabilityError where there is no MPICH."""
    from testbed.striping.emulated.mpi_launcher import find_mpiexec, run_under_mpi

    find_mpiexec()
    return run_under_mpi


def _placement(args: argparse.Namespace) -> Placement:
    from testbed.bulk.link_rates import at_rate

    network = load_network(args.network)
    if args.link_rate is not None:
        network = at_rate(network, args.link_rate)
    return place(network, args.compute_nodes, args.io_nodes, routing=args.routing)


def _command(args: argparse.Namespace) -> list[str]:
    words = list(args.command_words)
    if not words:
        raise InputError("no program to run; name it after --, as in: -- python program.py")
    own = Path(sys.executable).parent / words[0]
    if "/" not in words[0] and own.is_file():
        words[0] = str(own)  # python is this testbed's, which has the library
    if shutil.which(words[0]) is None:
        raise InputError(
            f"program {words[0]!r} is not there or cannot be executed; name one that is"
        )
    return words


def _new_root(results: Path) -> Path:
    from datetime import UTC, datetime

    stem = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    parent = results / "run"
    for number in range(1, 1000):
        place = parent / (stem if number == 1 else f"{stem}-{number}")
        try:
            place.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise InputError(
                f"results in {parent}: {error.strerror}; choose a directory that can be written"
            ) from None
        return place
    raise InputError(f"results in {parent}: too many runs of this second; remove some")
