"""Authentication of Dask schedulers, workers and clients by certificates.

Whoever can connect to a scheduler can run programs on all its workers. Therefore both sides of each
connection show a certificate.
"""

from __future__ import annotations

import ipaddress
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.errors import CapabilityError, InputError
from testbed.extras import pip_command
from testbed.machines.machines_request import TlsFiles
from topologies import Json

if TYPE_CHECKING:
    from distributed import LocalCluster, Security


def local_cluster(**options: object) -> LocalCluster:
    """Start a cluster of this process that other users cannot use, although they reach its ports.

    It uses temporary self-signed certificates, which are only in memory and are required of both
    sides. It serves no web pages.

    Args:
        options: Further parameters of ``LocalCluster``.

    Raises:
        CapabilityError: The package cryptography is not installed.
    """
    import dask
    from distributed import LocalCluster, Security

    try:
        security = Security.temporary()
    except ImportError:
        # The message of Dask does not name our extra.
        raise CapabilityError(
            f"the Python package cryptography is not installed; {pip_command('campaigns')}"
        ) from None
    dask.config.set({"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []})
    return LocalCluster(
        security=security,
        protocol="tls",
        dashboard_address=None,
        # Any free port: all clusters on a computer share the default port.
        scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
        silence_logs=logging.CRITICAL,
        **options,
    )


def quiet_dask(settings: Json) -> None:
    """Configure Dask, and silence its logs, because errors are reported in our own messages."""
    import dask

    dask.config.set({"distributed.admin.large-graph-warning-threshold": "1PB", **settings})
    parts = (".core", ".comm", ".nanny", ".scheduler", ".worker")
    for name in ("tornado", "distributed", *(f"distributed{part}" for part in parts)):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def scheduler_security(address: str, tls: TlsFiles) -> Security | None:
    """Return the security of connections to a scheduler on another machine.

    Args:
        address: Address of the scheduler, with its protocol.
        tls: Certificate files. Those that are not given come from Dask's configuration.

    Returns:
        The security, or None for plain TCP.

    Raises:
        InputError: A file is missing or cannot be used; or the scheduler is on another machine and
            has no TLS, and this was not requested.
    """
    protocol, _, host_and_port = address.rpartition("://")
    if protocol in ("tls", "wss"):
        if tls.without_tls:
            raise InputError(
                f"--without-tls: {address} is a scheduler with TLS; leave one of them out"
            )
        return _checked(address, tls)
    if tls.named:
        raise InputError(
            f"--tls-ca, --tls-cert, --tls-key: {address} is a scheduler without TLS; "
            "write tls://HOST:PORT"
        )
    if not (tls.without_tls or _is_loopback(host_and_port)):
        raise InputError(
            f"scheduler {address}: without TLS anyone who can reach it could run programs on its "
            "machines; give tls://HOST:PORT with --tls-ca, --tls-cert and --tls-key, "
            "or --without-tls"
        )
    return None


def _checked(address: str, tls: TlsFiles) -> Security:
    """Return the security with these files, after a check that they can be used."""
    from distributed import Security

    path_of = {"tls_ca_file": tls.ca, "tls_client_cert": tls.cert, "tls_client_key": tls.key}
    named = {option: path for option, path in path_of.items() if path is not None}
    security = Security(require_encryption=True, **named)
    if not (security.tls_ca_file and security.tls_client_cert and security.tls_client_key):
        raise InputError(
            f"scheduler {address}: give --tls-ca, --tls-cert and --tls-key, "
            "or name the files in Dask's configuration"
        )
    for path in named.values():
        if Path(path).exists() and not Path(path).is_file():
            raise InputError(
                f"certificates of scheduler {address}: {path} is not a regular file; "
                "copy its content to one"
            )
    try:
        security.get_connection_args("client")
    except OSError as error:
        # The file is missing, or it is not a certificate (ssl.SSLError).
        files = f"{security.tls_ca_file}, {security.tls_client_cert}, {security.tls_client_key}"
        reason = error.strerror or "no certificate, or a key of another one"
        raise InputError(
            f"certificates of scheduler {address} ({files}) cannot be used: {reason}"
        ) from None
    return security


def _is_loopback(host_and_port: str) -> bool:
    host = host_and_port.rpartition(":")[0].strip("[]") or host_and_port
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
