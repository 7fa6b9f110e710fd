"""Machines for ``testbed --machines``: a Dask scheduler on the first host and one worker on each of the others, started
by ssh.

    python examples/ssh_machines.py [--port 22] HEAD HOST [HOST ...]

Prints the scheduler's address, which is what ``--machines`` takes, then the options that go with it, and ends
everything when its input ends or Ctrl-C is pressed. Every host needs this package in the same version and Python at the
same path as here, and has to let this user in by a key, without asking.

All of them speak TLS, with certificates that are made here for this one time and copied by ssh into a directory that
only this user may enter; it has the same name everywhere, and goes at the end. A program on another host needs a copy
of it. Needs asyncssh (pip install '.[clusters]' in the project folder).
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

FILES = {"ca.pem": "tls_ca_file", "cert.pem": "tls_client_cert", "key.pem": "tls_client_key"}


@contextmanager
def certificates(hosts: Sequence[str], login: Mapping[str, Any]) -> Iterator[str]:
    """The directory that holds them here and on every host, until the block is left."""
    security = Security.temporary()
    directory = f"/tmp/testbed-tls-{secrets.token_hex(16)}"
    write = [
        f"set -e; umask 077; mkdir {directory} 2>/dev/null || test -O {directory} -a ! -L {directory}"
    ]
    for name, field in FILES.items():
        write.append(f"printf %s {shlex.quote(getattr(security, field))} > {directory}/{name}")
    try:
        everywhere(hosts, login, "\n".join(write))
        yield directory
    finally:
        with suppress(Exception):  # a host that is gone keeps nobody from removing the others'
            everywhere(hosts, login, f"rm -rf {directory}")


def everywhere(hosts: Sequence[str], login: Mapping[str, Any], script: str) -> None:
    """A shell on every host and one here read the script, which is in nobody's list of processes."""

    async def there(host: str) -> None:
        import asyncssh

        async with asyncssh.connect(host, **login) as connection:
            await connection.run("sh -s", input=script, check=True)

    async def on_all() -> list[BaseException | None]:
        return await asyncio.gather(*(there(host) for host in hosts), return_exceptions=True)

    failed = [error for error in asyncio.run(on_all()) if error is not None]
    subprocess.run(["sh", "-s"], input=script, text=True, check=True)
    if failed:
        raise failed[0]


def named(directory: str) -> dict[str, str]:
    """Dask's configuration, which the cluster hands on to every host: the files, and nothing without them."""
    pair = {"cert": f"{directory}/cert.pem", "key": f"{directory}/key.pem"}
    roles = {
        f"{role}.{part}": path
        for role in ("client", "scheduler", "worker")
        for part, path in pair.items()
    }
    tls = {
        f"distributed.comm.tls.{name}": path
        for name, path in {"ca-file": f"{directory}/ca.pem", **roles}.items()
    }
    return {
        **tls,
        "distributed.comm.require-encryption": True,
        "distributed.comm.default-scheme": "tls",
    }


def options(directory: str) -> list[str]:
    """What goes with ``--machines ADDRESS``."""
    return [
        word
        for part in ("ca", "cert", "key")
        for word in (f"--tls-{part}", f"{directory}/{part}.pem")
    ]


def main() -> None:
    """Hold the cluster until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=22, help="of ssh (default 22)")
    parser.add_argument("--user", help="to log in as (default: the same as here)")
    parser.add_argument("--key", help="file of the private key (default: those of ssh)")
    parser.add_argument(
        "--any-host-key",
        action="store_true",
        help="believe whoever answers for a host, and give it the certificates: on a network of your own only",
    )
    parser.add_argument(
        "hosts",
        nargs="+",
        help="the scheduler's host, then one for each machine; names or addresses",
    )
    args = parser.parse_args()
    if len(args.hosts) < 2:
        parser.error("give the scheduler's host and at least one machine")
    login = {"port": args.port} | ({"known_hosts": None} if args.any_host_key else {})
    login |= {
        name: value for name, value in (("username", args.user), ("client_keys", args.key)) if value
    }
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    head, *machines = args.hosts
    with (
        certificates(args.hosts, login) as directory,
        dask.config.set(named(directory)),
        SSHCluster(
            [head, *machines],
            connect_options=login,
            # one worker a machine, on the interface by which it was reached; no nanny: nothing starts a dead machine
            # again
            worker_options={"nthreads": 1, "memory_limit": 0, "protocol": "tls"},
            worker_class="distributed.Worker",
            scheduler_options={"host": head, "port": 8786, "dashboard": False, "protocol": "tls"},
            remote_python=f"{sys.executable} -P",  # modules of the login's folder are not imported
        ) as cluster,
    ):
        print(cluster.scheduler_address, " ".join(options(directory)), sep="\n", flush=True)
        try:
            sys.stdin.read()
        except KeyboardInterrupt:
            print("ending", file=sys.stderr)


if __name__ == "__main__":
    main()
