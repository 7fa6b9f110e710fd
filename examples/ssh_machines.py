"""Starts machines for ``testbed --machines`` with ssh: a Dask scheduler, and a worker on each host.

    python examples/ssh_machines.py [--port 22] HEAD HOST [HOST ...]

The scheduler runs on the first host, and a worker on each of the others. The program prints the
address of the scheduler, which ``--machines`` takes, and the other options that are needed. It ends
everything when its input ends, or when Ctrl-C is pressed.

Every host needs this package in the same version, and Python at the same path as here. It must let
this user log in with a key, without a question.

All connections use TLS. The certificates are created here for this run, and copied by ssh into a
directory that only this user may enter. The directory has the same name on all hosts, and is
removed at the end. A program on another host needs a copy of it. The program needs asyncssh
(pip install '.[clusters]' in the project folder).
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import dask
from distributed import Security, SSHCluster

# The files with certificates, and the fields of ``Security`` with their content.
FILES = {"ca.pem": "tls_ca_file", "cert.pem": "tls_client_cert", "key.pem": "tls_client_key"}


@contextmanager
def certificates(hosts: Sequence[str], login: Mapping[str, Any]) -> Iterator[str]:
    """Create certificates in a directory on every host and here, until the block ends.

    Args:
        hosts: The hosts.
        login: Options of ``asyncssh.connect``.

    Yields:
        The directory.
    """
    security = Security.temporary()
    directory = f"/tmp/testbed-tls-{secrets.token_hex(16)}"
    script = [
        "set -e; umask 077",
        # A host may be named twice, so that the directory may exist. It must belong to this user.
        f"mkdir {directory} 2>/dev/null || test -O {directory} -a ! -L {directory}",
    ]
    for name, field in FILES.items():
        script.append(f"printf %s {shlex.quote(getattr(security, field))} > {directory}/{name}")
    try:
        run_everywhere(hosts, login, "\n".join(script))
        yield directory
    finally:
        # If a host cannot be reached any more, the directories of the others are removed.
        with suppress(Exception):
            run_everywhere(hosts, login, f"rm -rf {directory}")


def run_everywhere(hosts: Sequence[str], login: Mapping[str, Any], script: str) -> None:
    """Run a shell script on every host and here.

    The shells read the script from their input, so that no list of processes shows it.

    Args:
        hosts: The hosts.
        login: Options of ``asyncssh.connect``.
        script: The script.
    """

    async def run_on(host: str) -> None:
        import asyncssh

        async with asyncssh.connect(host, **login) as connection:
            await connection.run("sh -s", input=script, check=True)

    async def run_on_hosts() -> list[BaseException | None]:
        tasks = [run_on(host) for host in hosts]
        return await asyncio.gather(*tasks, return_exceptions=True)

    results = asyncio.run(run_on_hosts())
    subprocess.run(["sh", "-s"], input=script, text=True, check=True)
    for error in results:
        if error is not None:
            raise error


def dask_settings(directory: str) -> dict[str, str | bool]:
    """Return the configuration of Dask for the certificates, which the cluster sends to all hosts.

    Connections without certificates are refused.
    """
    settings: dict[str, str | bool] = {
        "distributed.comm.require-encryption": True,
        "distributed.comm.default-scheme": "tls",
        "distributed.comm.tls.ca-file": f"{directory}/ca.pem",
    }
    for role in ("client", "scheduler", "worker"):
        settings[f"distributed.comm.tls.{role}.cert"] = f"{directory}/cert.pem"
        settings[f"distributed.comm.tls.{role}.key"] = f"{directory}/key.pem"
    return settings


def tls_options(directory: str) -> list[str]:
    """Return the options that are needed beside ``--machines ADDRESS``."""
    options = []
    for name in ("ca", "cert", "key"):
        options += [f"--tls-{name}", f"{directory}/{name}.pem"]
    return options


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    summary = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--port", type=int, default=22, help="port of ssh (default 22)")
    parser.add_argument("--user", help="name to log in with (default: the same as here)")
    parser.add_argument("--key", help="file with the private key (default: those of ssh)")
    parser.add_argument(
        "--any-host-key",
        action="store_true",
        help="trust any host that answers, and send it the certificates; only on a network of "
        "your own",
    )
    parser.add_argument(
        "hosts",
        nargs="+",
        help="the scheduler's host, then one for each machine; names or addresses",
    )
    arguments = parser.parse_args()
    if len(arguments.hosts) < 2:
        parser.error("give the scheduler's host and at least one machine")
    return arguments


def login_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of ``asyncssh.connect``."""
    login: dict[str, Any] = {"port": arguments.port}
    if arguments.any_host_key:
        login["known_hosts"] = None
    if arguments.user:
        login["username"] = arguments.user
    if arguments.key:
        login["client_keys"] = arguments.key
    return login


def start_cluster(hosts: Sequence[str], login: Mapping[str, Any]) -> SSHCluster:
    """Start the scheduler on the first host, and a worker on each of the others."""
    return SSHCluster(
        hosts,
        connect_options=login,
        # Without a nanny, nothing restarts a dead machine. Each machine has one worker, on the
        # interface over which it was reached.
        worker_options={"nthreads": 1, "memory_limit": 0, "protocol": "tls"},
        worker_class="distributed.Worker",
        scheduler_options={"host": hosts[0], "port": 8786, "dashboard": False, "protocol": "tls"},
        # With -P, modules of the folder of the login are not imported.
        remote_python=f"{sys.executable} -P",
    )


def main() -> None:
    """Start the cluster, print the options, and keep the cluster until the input ends."""
    arguments = parse_arguments()
    login = login_options(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        certificates(arguments.hosts, login) as directory,
        dask.config.set(dask_settings(directory)),
        start_cluster(arguments.hosts, login) as cluster,
    ):
        print(cluster.scheduler_address)
        print(" ".join(tls_options(directory)), flush=True)
        try:
            sys.stdin.read()
        except KeyboardInterrupt:
            print("ending", file=sys.stderr)


if __name__ == "__main__":
    main()
