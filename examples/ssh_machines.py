"""Machines for ``testbed --machines``: a Dask scheduler on the first host and one worker on each of the others, started by ssh.

    python examples/ssh_machines.py [--port 22] HEAD HOST [HOST ...]

Prints the scheduler's address, which is what ``--machines`` takes, and ends everything when its input ends or Ctrl-C is pressed. Every
host needs this package in the same version and Python at the same path as here, and has to let this user in by a key, without asking.
Needs asyncssh (pip install 'parallel-communications-testbed[clusters]').
"""

from __future__ import annotations

import argparse
import signal
import sys

from distributed import SSHCluster


def main() -> None:
    """Hold the cluster until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=22, help="of ssh (default 22)")
    parser.add_argument("--user", help="to log in as (default: the same as here)")
    parser.add_argument("--key", help="file of the private key (default: those of ssh)")
    parser.add_argument("--any-host-key", action="store_true", help="of hosts that ssh does not know yet")
    parser.add_argument("hosts", nargs="+", help="the scheduler's host, then one for each machine; names or addresses")
    args = parser.parse_args()
    if len(args.hosts) < 2:
        parser.error("give the scheduler's host and at least one machine")
    login = {"port": args.port} | ({"known_hosts": None} if args.any_host_key else {})
    login |= {name: value for name, value in (("username", args.user), ("client_keys", args.key)) if value}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    head, *machines = args.hosts
    cluster = SSHCluster(
        [head, *machines],
        connect_options=login,
        # one worker a machine, on the interface by which it was reached; no nanny: nothing starts a dead machine again
        worker_options={"nthreads": 1, "memory_limit": 0},
        worker_class="distributed.Worker",
        scheduler_options={"host": head, "port": 8786, "dashboard": False},
        remote_python=sys.executable,
    )
    with cluster:
        print(cluster.scheduler_address, flush=True)
        try:
            sys.stdin.read()
        except KeyboardInterrupt:
            print("ending", file=sys.stderr)


if __name__ == "__main__":
    main()
