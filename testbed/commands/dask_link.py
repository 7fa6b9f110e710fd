"""The options of the link to a Dask scheduler elsewhere: certificates, or none by name."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from testbed.model.options import kinds
from testbed.model.options.option import RUNNING, Only, option, options

if TYPE_CHECKING:
    from distributed import Security

    from testbed.machines.machines_request import TlsFiles

_LINKED = Only(
    when=lambda a: bool(getattr(a, "scheduler", None)) or "://" in (getattr(a, "machines", None) or ""),
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
    tls_key: str | None = option(default=None, metavar="FILE", help="the certificate's key", only=(_LINKED,))
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
        only=(RUNNING, Only(when=lambda a: a.scheduler is None, needs="workers here, without --dask")),
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
    from testbed.machines.machines_request import TlsFiles

    return TlsFiles(ca=args.tls_ca, cert=args.tls_cert, key=args.tls_key, without_tls=args.without_tls)


def tls_words(args: argparse.Namespace) -> list[str]:
    """The options as they are written, for a command that is started with the same."""
    found = [(name, getattr(args, name)) for name in ("tls_ca", "tls_cert", "tls_key")]
    words = [word for name, value in found if value is not None for word in (f"--{name.replace('_', '-')}", value)]
    return [*words, *(["--without-tls"] if args.without_tls else [])]


def security_of(args: argparse.Namespace) -> Security | None:
    """Of --dask; None where it is not given, and for plain TCP. InputError for options that do not go together."""
    if args.scheduler is None:
        return None
    from testbed.machines.adapters.clusters.dask_security import scheduler_security

    return scheduler_security(args.scheduler, tls_files(args))
