"""The options of runs over several machines and of remote Dask schedulers.

The module also enters the sandbox, and reports the death of a machine.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.emulation.machine.capabilities import emulation_problem
from testbed.emulation.machine.encryption import encryption_means
from testbed.emulation.sandbox.control_socket import VARIABLE, listen
from testbed.emulation.sandbox.sandbox import enter_sandbox, in_sandbox
from testbed.errors import CapabilityError, InputError, InvalidRunError, MachineDiedError
from testbed.machines.adapters.clusters.dask_security import scheduler_security
from testbed.machines.machines_request import (
    MachinesRequest,
    TlsFiles,
    parse_machines,
    parse_placement_text,
)
from testbed.model.json_values import read_text
from testbed.model.options import kinds
from testbed.model.options.option import RUNNING, Only, option, options, running

if TYPE_CHECKING:
    from distributed import Security


def _has_scheduler(args: argparse.Namespace) -> bool:
    """Return whether the options name a Dask scheduler."""
    if getattr(args, "scheduler", None):
        return True
    return "://" in (getattr(args, "machines", None) or "")


_LINKED = Only(
    when=_has_scheduler,
    needs="a Dask scheduler elsewhere, with --dask (of a network over several machines: "
    "--machines) tls://HOST:PORT",
)


@options
class TlsOptions:
    """The TLS certificates for a Dask scheduler."""

    tls_ca: str | None = option(
        default=None,
        metavar="FILE",
        help="certificates of the authority of a scheduler tls://HOST:PORT (PEM)",
        only=(_LINKED,),
    )
    tls_cert: str | None = option(
        default=None,
        metavar="FILE",
        help="our certificate for the scheduler (default of all three TLS options: Dask's "
        "configuration)",
        only=(_LINKED,),
    )
    tls_key: str | None = option(
        default=None, metavar="FILE", help="key of our certificate", only=(_LINKED,)
    )
    without_tls: bool = option(
        default=False,
        help="allow a scheduler tcp://HOST:PORT on another machine, without encryption. Anyone "
        "who can reach it can run programs there",
        only=(_LINKED,),
    )


def _has_local_workers(args: argparse.Namespace) -> bool:
    return args.scheduler is None


@options
class DaskOptions:
    """The processes that compute: on this machine, or the workers of a Dask scheduler."""

    workers: int = option(
        default=2,
        kind=kinds.processes,
        help="number of processes on this machine that share the work",
        only=(
            RUNNING,
            Only(when=_has_local_workers, needs="workers here, without --dask"),
        ),
    )
    scheduler: str | None = option(
        flag="--dask",
        default=None,
        metavar="tls://HOST:PORT",
        help="Dask scheduler whose workers share the work instead",
        only=(RUNNING,),
    )


def tls_files(args: argparse.Namespace) -> TlsFiles:
    """Return the TLS files that the options name."""
    return TlsFiles(
        ca=args.tls_ca, cert=args.tls_cert, key=args.tls_key, without_tls=args.without_tls
    )


def tls_words(args: argparse.Namespace) -> list[str]:
    """Return the TLS options as arguments of another command."""
    arguments: list[str] = []
    for name in ("tls_ca", "tls_cert", "tls_key"):
        value = getattr(args, name)
        if value is not None:
            arguments += [f"--{name.replace('_', '-')}", value]
    if args.without_tls:
        arguments.append("--without-tls")
    return arguments


def security_of(args: argparse.Namespace) -> Security | None:
    """Return the TLS settings for ``--dask``, or None without it or with plain TCP.

    Raises:
        InputError: The TLS options contradict each other or the scheduler's address.
    """
    if args.scheduler is None:
        return None
    return scheduler_security(args.scheduler, tls_files(args))


def _is_spread(args: argparse.Namespace) -> bool:
    return args.machines is not None


_SPREAD = Only(
    when=_is_spread,
    needs="a run over several machines, with --machines",
)


@options
class MachineOptions(TlsOptions):
    """The options of a network that is spread over several machines."""

    machines: str | None = running(
        default=None,
        metavar="N|SCHEDULER",
        help="distribute the network over N namespaces on this computer that act as machines, "
        "or over the workers of a Dask scheduler, tls://HOST:PORT",
    )
    machine_placement: Path | None = running(
        default=None,
        metavar="FILE",
        help='JSON file with the machine of every switch, for --machines: {"machines": [["s1", '
        '"s2"], ["s3"]]}',
        only=(_SPREAD,),
    )
    underlay: str | None = running(
        default=None,
        metavar="INTERFACE",
        help="interface through which the machines of --machines SCHEDULER reach each other",
        only=(_SPREAD,),
    )
    encrypt: bool = running(
        default=False,
        help="encrypt the traffic between the machines of --machines with WireGuard",
        only=(_SPREAD,),
    )


def machines_request(args: argparse.Namespace, fabric: str) -> MachinesRequest | None:
    """Return the machines that the options request, or None without ``--machines``.

    Raises:
        InputError: The options contradict each other, or the fabric is the simulator.
        CapabilityError: The kernel does not support the encryption.
    """
    if args.machines is None:
        return None
    requested = replace(parse_machines(args.machines), tls=tls_files(args))
    if requested.scheduler is not None:
        scheduler_security(requested.scheduler, requested.tls)
    if fabric != "emulation":
        raise InputError("--machines requires the emulated fabric; leave --fabric simulator out")
    # Workers of a scheduler check their own kernel and report their name.
    if args.encrypt and requested.scheduler is None:
        problem = encryption_means()[1]
        if problem is not None:
            raise CapabilityError(f"--encrypt: {problem}")
    placement = None
    if args.machine_placement is not None:
        where = f"--machine-placement {args.machine_placement}"
        placement = parse_placement_text(read_text(args.machine_placement, where=where), where)
    if args.underlay is not None:
        requested = replace(requested, underlay=args.underlay)
    return replace(requested, place=placement, encrypt=args.encrypt)


def enter_unless_elsewhere(requested: MachinesRequest | None, *, name: str | None = None) -> None:
    """Enter a sandbox if the network, or a part of it, is on this machine.

    Args:
        requested: The machines of the network; None for this one.
        name: The name of the network's control socket; None for no socket.
    """
    if in_sandbox():
        return
    if requested is None or requested.scheduler is None:
        enter_sandbox(sys.argv[1:], name=name)
    elif name is not None:
        os.environ[VARIABLE] = str(listen(name).detach())


def enter_at_once(args: argparse.Namespace) -> None:
    """Enter a sandbox before the plan is made, if the options show that the run will need it.

    The command starts again inside the sandbox, and a plan that takes seconds would be made twice.
    With ``--live`` the sandbox is entered later, because the page is served from outside once the
    plan is made. A network whose delays this kernel does not support is simulated in the sandbox.
    """
    builds_network = (
        args.fabric in (None, "emulation")
        and not args.live
        and getattr(args, "machines", None) is None
    )
    if builds_network and emulation_problem() is None:
        enter_sandbox(sys.argv[1:])


@contextmanager
def report_invalid_run(*, as_json: bool) -> Iterator[None]:
    """Report the reason and the partial measurements if a run over several machines is invalid.

    The error is raised again, and leads to exit code 4.

    Args:
        as_json: Whether a JSON object is printed as well.
    """
    try:
        yield
    except InvalidRunError as error:
        measured = error.measured if isinstance(error, MachineDiedError) else {}
        if as_json:
            print(json.dumps({"invalid": str(error), "lost": measured or None}))
        for name, value in measured.items():
            print(f"testbed: until then: {name}: {json.dumps(value)}", file=sys.stderr)
        raise
