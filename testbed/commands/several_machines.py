"""The options of runs over several machines and of the link to a Dask scheduler elsewhere, and what is said where a
machine dies."""

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


_LINKED = Only(
    when=lambda a: (
        bool(getattr(a, "scheduler", None)) or "://" in (getattr(a, "machines", None) or "")
    ),
    needs="a Dask scheduler elsewhere, with --dask (of a network over several machines: --machines) tls://HOST:PORT",
)


@options
class TlsOptions:
    """The certificates of the link, or none by name."""

    tls_ca: str | None = option(
        default=None,
        metavar="FILE",
        help="of a scheduler tls://HOST:PORT: the authority of its certificates (PEM)",
        only=(_LINKED,),
    )
    tls_cert: str | None = option(
        default=None,
        metavar="FILE",
        help="the certificate to show it (default of all three: Dask's configuration)",
        only=(_LINKED,),
    )
    tls_key: str | None = option(
        default=None, metavar="FILE", help="the certificate's key", only=(_LINKED,)
    )
    without_tls: bool = option(
        default=False,
        help="use a scheduler tcp://HOST:PORT of another machine: anyone who reaches it can run programs there",
        only=(_LINKED,),
    )


@options
class DaskOptions:
    """Who computes: processes here, or the workers of a scheduler."""

    workers: int = option(
        default=2,
        kind=kinds.processes,
        help="processes here that share the work",
        only=(
            RUNNING,
            Only(when=lambda a: a.scheduler is None, needs="workers here, without --dask"),
        ),
    )
    scheduler: str | None = option(
        flag="--dask",
        default=None,
        metavar="tls://HOST:PORT",
        help="a Dask scheduler whose workers share it instead",
        only=(RUNNING,),
    )


def tls_files(args: argparse.Namespace) -> TlsFiles:
    """What the options say."""
    return TlsFiles(
        ca=args.tls_ca, cert=args.tls_cert, key=args.tls_key, without_tls=args.without_tls
    )


def tls_words(args: argparse.Namespace) -> list[str]:
    """The options as they are written, for a command that is started with the same."""
    found = [(name, getattr(args, name)) for name in ("tls_ca", "tls_cert", "tls_key")]
    words = [
        word
        for name, value in found
        if value is not None
        for word in (f"--{name.replace('_', '-')}", value)
    ]
    return [*words, *(["--without-tls"] if args.without_tls else [])]


def security_of(args: argparse.Namespace) -> Security | None:
    """Of --dask; None where it is not given, and for plain TCP. InputError for options that do not go together."""
    if args.scheduler is None:
        return None

    return scheduler_security(args.scheduler, tls_files(args))


_SPREAD = Only(
    when=lambda args: args.machines is not None,
    needs="a run over several machines, with --machines",
)


@options
class MachineOptions(TlsOptions):
    """Of a network that is spread over several machines."""

    machines: str | None = running(
        default=None,
        metavar="N|SCHEDULER",
        help="spread the network over N machines that are namespaces on this computer, or over the workers of a Dask "
        "scheduler, tls://HOST:PORT",
    )
    machine_placement: Path | None = running(
        default=None,
        metavar="FILE",
        help='of --machines: JSON, {"machines": [["s1", "s2"], ["s3"]]}, every switch',
        only=(_SPREAD,),
    )
    underlay: str | None = running(
        default=None,
        metavar="INTERFACE",
        help="of --machines SCHEDULER: the machines' interface towards each other",
        only=(_SPREAD,),
    )
    encrypt: bool = running(
        default=False,
        help="of --machines: what crosses from one machine to another goes through WireGuard",
        only=(_SPREAD,),
    )


def machines_request(args: argparse.Namespace, fabric: str) -> MachinesRequest | None:
    """None without --machines. InputError for what does not go together, CapabilityError for what the kernel is
    missing."""
    if args.machines is None:
        return None
    requested = replace(parse_machines(args.machines), tls=tls_files(args))
    if requested.scheduler is not None:
        scheduler_security(requested.scheduler, requested.tls)
    if fabric != "emulation":
        raise InputError("--machines requires the emulated fabric; leave --fabric simulator out")
    # other machines say themselves, by name, that they cannot
    if args.encrypt and requested.scheduler is None and (lack := encryption_means()[1]) is not None:
        raise CapabilityError(f"--encrypt: {lack}")
    place = None
    if (file := args.machine_placement) is not None:
        where = f"--machine-placement {file}"
        place = parse_placement_text(read_text(file, where=where), where)
    if args.underlay is not None:
        requested = replace(requested, underlay=args.underlay)
    return replace(requested, place=place, encrypt=args.encrypt)


def enter_unless_elsewhere(requested: MachinesRequest | None, *, name: str | None = None) -> None:
    """Into a sandbox, where the network is (all or part of it) on this machine. ``name``: of the network's door, None
    for none."""
    if in_sandbox():
        return
    if requested is None or requested.scheduler is None:
        enter_sandbox(sys.argv[1:], name=name)
    elif name is not None:
        os.environ[VARIABLE] = str(listen(name).detach())


def enter_at_once(args: argparse.Namespace) -> None:
    """Into a sandbox before anything is planned, which takes seconds and would be done again inside, where the options
    alone say that the network is built by this process, and switches are possible. (A network whose delays this kernel
    cannot make is simulated there.) Not with --live, whose page is served from outside when the plan has been made."""
    here = (
        args.fabric in (None, "emulation")
        and not args.live
        and getattr(args, "machines", None) is None
    )
    if here and emulation_problem() is None:
        enter_sandbox(sys.argv[1:])


@contextmanager
def said_when_lost(*, as_json: bool) -> Iterator[None]:
    """A run over several machines that says nothing still says why, and what was measured until a machine died; then
    exit code 4."""
    try:
        yield
    except InvalidRunError as error:
        measured = error.measured if isinstance(error, MachineDiedError) else {}
        if as_json:
            print(json.dumps({"invalid": str(error), "lost": measured or None}))
        for name, value in measured.items():
            print(f"testbed: until then: {name}: {json.dumps(value)}", file=sys.stderr)
        raise
