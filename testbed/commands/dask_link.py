"""The options of the link to a Dask scheduler elsewhere: certificates, or none by name."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from testbed.errors import InputError

if TYPE_CHECKING:
    from distributed import Security

    from testbed.machines.machines_request import TlsFiles

TLS_OPTIONS = ("tls_ca", "tls_cert", "tls_key", "without_tls")
_FILES = TLS_OPTIONS[:3]


HELP = {
    "tls_ca": "of a scheduler tls://HOST:PORT: the authority of its certificates (PEM)",
    "tls_cert": "the certificate to show it (default of all three: Dask's configuration)",
    "tls_key": "the certificate's key",
    "without_tls": "use a scheduler tcp://HOST:PORT of another machine: anyone who reaches it can run programs there",
}


def add_tls(parser: argparse.ArgumentParser) -> None:
    """--tls-ca, --tls-cert, --tls-key, --without-tls."""
    for name in _FILES:
        parser.add_argument(f"--{name.replace('_', '-')}", metavar="FILE", help=HELP[name])
    parser.add_argument("--without-tls", action="store_true", help=HELP["without_tls"])


def tls_files(args: argparse.Namespace) -> TlsFiles:
    """What the options say."""
    from testbed.machines.machines_request import TlsFiles

    return TlsFiles(ca=args.tls_ca, cert=args.tls_cert, key=args.tls_key, without_tls=args.without_tls)


def tls_words(args: argparse.Namespace) -> list[str]:
    """The options as they are written, for a command that is started with the same."""
    found = [(name, getattr(args, name)) for name in _FILES]
    words = [word for name, value in found if value is not None for word in (f"--{name.replace('_', '-')}", value)]
    return [*words, *(["--without-tls"] if args.without_tls else [])]


def security_of(args: argparse.Namespace) -> Security | None:
    """Of --dask; None where it is not given, and for plain TCP. InputError for options that do not go together."""
    if args.scheduler is None:
        if words := tls_words(args):
            raise InputError(f"{words[0]}: it is for a Dask scheduler elsewhere; give --dask tls://HOST:PORT with it")
        return None
    from testbed.machines.adapters.clusters.dask_security import scheduler_security

    return scheduler_security(args.scheduler, tls_files(args))
