"""Who may speak to a Dask scheduler and its workers: whoever does can run programs on all of them, so each side shows a
certificate."""

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
    """A cluster of this process (``options``: LocalCluster's) that other users cannot speak to, although they reach its
    ports.

    Certificates are its own, in memory alone (Dask's: self-signed, asked of both sides); no page tells of it.
    """
    import dask
    from distributed import LocalCluster, Security

    try:
        security = Security.temporary()
    except ImportError:  # Dask's own words name no extra of ours
        raise CapabilityError(
            f"the Python package cryptography is not installed; {pip_command('campaigns')}"
        ) from None
    dask.config.set({"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []})
    return LocalCluster(
        security=security,
        protocol="tls",
        dashboard_address=None,
        scheduler_kwargs={
            "dashboard_address": "127.0.0.1:0"
        },  # any port: the default is one that all share
        silence_logs=logging.CRITICAL,
        **options,
    )


def quiet_dask(settings: Json) -> None:
    """Dask with these settings, and silent: what goes wrong is told in our own words."""
    import dask

    dask.config.set({"distributed.admin.large-graph-warning-threshold": "1PB", **settings})
    parts = (".core", ".comm", ".nanny", ".scheduler", ".worker")
    for name in ("tornado", "distributed", *(f"distributed{part}" for part in parts)):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def scheduler_security(address: str, tls: TlsFiles) -> Security | None:
    """What to connect to a scheduler elsewhere with; None: plain TCP. Certificates come from the files or Dask's
    configuration.

    InputError where they are missing or cannot be read, and for plain TCP beyond this machine that was not requested by
    name.
    """
    scheme, _, place = address.rpartition("://")
    if scheme in ("tls", "wss"):
        if tls.without_tls:
            raise InputError(
                f"--without-tls: {address} is a scheduler with TLS; leave one of them out"
            )
        return _checked(address, tls)
    if tls.named:
        raise InputError(
            f"--tls-ca, --tls-cert, --tls-key: {address} is a scheduler without TLS; write tls://HOST:PORT"
        )
    if not (tls.without_tls or _is_loopback(place)):
        raise InputError(
            f"scheduler {address}: without TLS everybody who reaches it could run programs on its machines; "
            "give tls://HOST:PORT with --tls-ca, --tls-cert and --tls-key, or --without-tls"
        )
    return None


def _checked(address: str, tls: TlsFiles) -> Security:
    from distributed import Security

    given = {"tls_ca_file": tls.ca, "tls_client_cert": tls.cert, "tls_client_key": tls.key}
    security = Security(
        require_encryption=True, **{name: path for name, path in given.items() if path is not None}
    )
    if not (security.tls_ca_file and security.tls_client_cert and security.tls_client_key):
        raise InputError(
            f"scheduler {address}: give --tls-ca, --tls-cert and --tls-key, or name the files in Dask's configuration"
        )
    if strange := [
        path
        for path in given.values()
        if path is not None and Path(path).exists() and not Path(path).is_file()
    ]:
        raise InputError(
            f"certificates of scheduler {address}: {strange[0]} is no plain file; copy what it holds into one"
        )
    try:
        security.get_connection_args("client")
    except OSError as error:  # a missing file, or one that holds no certificate (ssl.SSLError)
        files = f"{security.tls_ca_file}, {security.tls_client_cert}, {security.tls_client_key}"
        why = error.strerror or "no certificate, or a key of another one"
        raise InputError(
            f"certificates of scheduler {address} ({files}) cannot be used: {why}"
        ) from None
    return security


def _is_loopback(place: str) -> bool:
    host = place.rpartition(":")[0].strip("[]") or place
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
