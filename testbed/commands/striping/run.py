"""``testbed run``: starts a parallel program on emulated hosts.

There is one process per compute node, and a listener on each I/O node.
"""

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
    report_invalid_run,
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
from testbed.model.options import kinds
from testbed.model.options.option import ENDS, ROUTED, RUN, SENT, Only
from testbed.striping.placement import Placement, place
from topologies import load_network

if TYPE_CHECKING:
    from testbed.striping.emulated.program_run import ProgramEnd, ProgramNetwork

    Run = Callable[..., ProgramEnd]

DESCRIPTION = (
    "Run a program on the hosts of an emulated network. Each compute node runs one process, "
    "which gets its rank, and other hosts run I/O listeners for striped files. File names refer "
    "to the I/O nodes by the names of their hosts, or by p1, p2, ..."
)
# Largest length of the command line in the title of the live page.
_TITLE_LENGTH = 60


def _on_one_machine(args: argparse.Namespace) -> bool:
    return args.machines is None


def _has_no_subfile_dir(args: argparse.Namespace) -> bool:
    return args.root is None


# Conditions under which options are accepted, and what a message asks for otherwise.
_HERE = Only(
    when=_on_one_machine,
    needs="a program on one machine, without --machines (its launcher starts ranks in hosts of its "
    "own machine only)",
)
_NEW_ROOT = Only(
    when=_has_no_subfile_dir,
    needs="a run without --subfile-dir, which says where subfiles are stored",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = adder(parser)
    add(
        "network",
        metavar="NETWORK",
        help="network with hosts: a catalogue name (swiss-t1, crossbar:8, ...) or a file",
    )
    _add_network_options(parser)
    add = adder(parser, SENT)
    add(
        "--subfile-dir",
        dest="root",
        type=Path,
        metavar="DIR",
        help="directory for subfiles (default: a new directory below --results)",
    )
    add = adder(parser, ROUTED)
    add(
        "--routing",
        metavar="METHOD",
        help="static routing method (default: the network's method)",
    )
    _add_run_options(parser)
    parser.usage = (
        f"{parser.prog} NETWORK --compute-nodes N --io-nodes M [OPTION ...] -- PROGRAM ..."
    )
    assert isinstance(parser, OneLineParser)
    parser.trailing = "command_words"
    parser.set_defaults(command_words=())


def _add_network_options(parser: argparse.ArgumentParser) -> None:
    add = adder(parser, ENDS)
    add(
        "--compute-nodes",
        type=kinds.some,
        required=True,
        metavar="N",
        help="number of processes of the program, one per host",
    )
    add(
        "--io-nodes",
        type=kinds.some,
        required=True,
        metavar="M",
        help="number of hosts with a listener",
    )
    add(
        "--link-rate",
        type=kinds.rate_bps,
        metavar="RATE",
        help="rate of every link (default: that of the network)",
    )
    add(
        "--mtu",
        type=kinds.mtu_bytes,
        default=9000,
        metavar="SIZE",
        help="MTU of every interface, in bytes (default: 9000)",
    )
    add(
        "--no-shaping",
        dest="no_shape",
        action="store_true",
        help="do not limit the rate of links, and do not delay packets",
    )


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    add = adder(parser, RUN)
    add(
        "--listener-timeout",
        dest="timeout",
        type=kinds.answering,
        default=2.0,
        metavar="TIME",
        help="time after which a silent listener is given up (default: 2 s)",
    )
    add(
        "--time-limit",
        type=kinds.time_limit,
        metavar="TIME",
        help="kill the program after this time",
    )
    add(
        "--mpi",
        action="store_true",
        help="start the processes as the ranks of one MPI program (with MPICH, from the extra "
        "`mpi`)",
        only=_HERE,
    )
    add_options(parser, MachineOptions, LiveOptions)
    add(
        "--name",
        help="name of the network for testbed exec and attach (default: run-PROCESS)",
    )
    add(
        "--results",
        type=Path,
        default=Path("results"),
        help="directory for results (default: results)",
        only=_NEW_ROOT,
    )


def run(args: argparse.Namespace) -> int:
    """Run the program. The exit code is 0, or that of the first process that failed."""
    # Imported here so that --help starts fast.
    from testbed.striping.emulated.program_run import ProgramNetwork

    argv = _program_argv(args)
    placement = _placement(args)
    machines = machines_request(args, "emulation")
    run_mpi = _mpi_runner() if args.mpi else None
    require_emulation()
    start_live(args)
    enter_unless_elsewhere(machines, name=args.name or unused_name("run"))
    root = args.root
    if root is None:
        root = _new_root(args.results)
    network = ProgramNetwork(
        placement,
        root,
        mtu=args.mtu,
        shape=not args.no_shape,
        timeout_s=args.timeout,
        machines=machines,
    )
    with report_invalid_run(as_json=False):
        end = _run_program(network, argv, args.time_limit, run_mpi)
    if end.rank is not None:
        node = placement.compute[end.rank]
        print(
            f"testbed: rank {end.rank} on {node} ended with exit code {end.exit_code}",
            file=sys.stderr,
        )
    print(f"testbed: subfiles in {root}", file=sys.stderr)
    return end.exit_code


def _view(argv: list[str], placement: Placement) -> RunView:
    """Return the view of the live page before the program has sent anything."""
    command = shlex.join([Path(argv[0]).name, *argv[1:]])
    title = f"{shorten(command, _TITLE_LENGTH)} on {placement.network.name}"
    return idle_network_view(title, placement.network)


def _run_program(
    network: ProgramNetwork, argv: list[str], time_limit_s: float | None, run_mpi: Run | None
) -> ProgramEnd:
    """Run the program on its network, and serve requests of other commands meanwhile.

    Args:
        network: The network, which is built first.
        argv: The program and its arguments.
        time_limit_s: Limit on the time, in seconds, or None.
        run_mpi: Runs the program as one MPI program, or None.

    Raises:
        MachineDiedError: A machine died. The error has the ranks that had ended.
    """
    watch = partial(live_watch, partial(_view, argv, network.placement), "the program runs")
    with ExitStack() as stack:
        platform = stack.enter_context(network).platform
        if isinstance(platform, Here):
            stack.enter_context(control_server(RequestHandlers(network.net).handlers()))
            stack.enter_context(watch(partial(read_counters, network.net.link_meter())))
        else:
            from testbed.machines.adapters.distributed_server import DistributedHandlers

            stack.enter_context(control_server(DistributedHandlers(platform).handlers()))
            stack.enter_context(watch(ask=platform.reading))
        start = network.run if run_mpi is None else partial(run_mpi, network)
        return start(argv, prefixed=sys.stdout.isatty(), time_limit_s=time_limit_s)


def _mpi_runner() -> Run:
    """Return the function that runs a program as one MPI program.

    Raises:
        CapabilityError: MPICH is not installed.
    """
    from testbed.striping.emulated.mpi_launcher import find_mpiexec, run_under_mpi

    find_mpiexec()
    return run_under_mpi


def _placement(args: argparse.Namespace) -> Placement:
    from testbed.bulk.link_rates import at_rate

    network = load_network(args.network)
    if args.link_rate is not None:
        network = at_rate(network, args.link_rate)
    return place(network, args.compute_nodes, args.io_nodes, routing=args.routing)


def _program_argv(args: argparse.Namespace) -> list[str]:
    """Return the program and its arguments.

    A program in the directory of this Python interpreter is preferred. Thus ``python`` is an
    interpreter that can import the library.

    Raises:
        InputError: No program was given, or it does not exist.
    """
    argv = list(args.command_words)
    if not argv:
        raise InputError("no program to run; name it after --, as in: -- python program.py")
    beside_python = Path(sys.executable).parent / argv[0]
    if "/" not in argv[0] and beside_python.is_file():
        argv[0] = str(beside_python)
    if shutil.which(argv[0]) is None:
        raise InputError(
            f"program {argv[0]!r} does not exist or cannot be executed; give another one"
        )
    return argv


def _new_root(results: Path) -> Path:
    """Create a folder for subfiles, named by the time.

    Raises:
        InputError: No folder can be created.
    """
    from datetime import UTC, datetime

    name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    parent = results / "run"
    # Runs that start in the same second get a number.
    for suffix in ("", *(f"-{number}" for number in range(2, 1000))):
        folder = parent / (name + suffix)
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise InputError(
                f"results in {parent}: {error.strerror}; choose a directory that can be written"
            ) from None
        return folder
    raise InputError(f"results in {parent}: too many runs of this second; remove some")
