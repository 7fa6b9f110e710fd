"""Starts machines for ``testbed --machines`` with SLURM: one Dask worker in each of COUNT jobs.

    python examples/slurm_machines.py [--interface NAME] [--head-interface NAME] [--queue NAME]
    [--sbatch OPTION ...] COUNT

The Dask scheduler runs on this host. When all jobs run, the program prints the address of the
scheduler, which ``--machines`` takes, and the other options that are needed. It ends the jobs when
its input ends, or when Ctrl-C is pressed.

All connections use TLS. The certificates are created for this run. Until the end they are in a
directory below --shared that only this user may enter.

Every node needs this package in the same version, and Python at the same path as here. Two jobs on
one node would be two machines with one address, which is not possible. If nodes are shared, use
--sbatch=--exclusive. The program needs dask-jobqueue (pip install '.[clusters]' in the project
folder).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path

from dask_jobqueue import SLURMCluster
from distributed import Security


def write_certificates(directory: Path) -> Security:
    """Create certificates, write them into files that only this user reads, and return them."""
    temporary = Security.temporary()
    files = {
        "ca": temporary.tls_ca_file,
        "cert": temporary.tls_client_cert,
        "key": temporary.tls_client_key,
    }
    for name, text in files.items():
        path = directory / f"{name}.pem"
        path.touch(mode=0o600)
        path.write_text(text)
    options = {}
    for role in ("client", "scheduler", "worker"):
        options[f"tls_{role}_cert"] = str(directory / "cert.pem")
        options[f"tls_{role}_key"] = str(directory / "key.pem")
    ca_file = str(directory / "ca.pem")
    return Security(require_encryption=True, tls_ca_file=ca_file, **options)


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    summary = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument(
        "--interface",
        help="network interface of the nodes towards this host (default: that of the host's name)",
    )
    parser.add_argument(
        "--head-interface",
        help="network interface of this host towards the nodes (default: the same name)",
    )
    parser.add_argument("--queue", help="partition of SLURM (default: SLURM's default)")
    parser.add_argument("--memory", default="2GB", help="memory of each job (default 2GB)")
    parser.add_argument("--cores", type=int, default=2, help="cores of each job (default 2)")
    parser.add_argument(
        "--sbatch", action="append", default=[], metavar="OPTION", help="another option of sbatch"
    )
    parser.add_argument(
        "--wait",
        type=float,
        default=120,
        metavar="SECONDS",
        help="time until all jobs must run, in seconds (default 120)",
    )
    parser.add_argument(
        "--shared",
        type=Path,
        default=Path.home(),
        help="directory that every node has (default: home)",
    )
    parser.add_argument("count", type=int, help="number of jobs, each of which is a machine")
    return parser.parse_args()


def start_cluster(arguments: argparse.Namespace, security: Security) -> SLURMCluster:
    """Start the Dask scheduler."""
    prologue = []
    python_path = os.environ.get("PYTHONPATH")
    if python_path:
        prologue.append(f"export PYTHONPATH={python_path}")
    scheduler_options = {"dashboard": False}
    if arguments.head_interface:
        scheduler_options["interface"] = arguments.head_interface
    return SLURMCluster(
        queue=arguments.queue,
        cores=arguments.cores,
        processes=1,
        protocol="tls",
        security=security,
        memory=arguments.memory,
        interface=arguments.interface,
        # With -P, modules of the current directory are not imported.
        python=f"{sys.executable} -P",
        # Without a nanny, nothing restarts a dead machine. Dask must not watch the memory of a
        # worker either, which is that of a complete network.
        nanny=False,
        worker_extra_args=["--nthreads", "1", "--memory-limit", "0", "--no-dashboard"],
        job_script_prologue=prologue,
        job_extra_directives=arguments.sbatch,
        scheduler_options=scheduler_options,
    )


def main() -> None:
    """Start the jobs, print the options, and keep the jobs until the input ends."""
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix=".testbed-tls-", dir=arguments.shared) as directory:
        security = write_certificates(Path(directory))
        with start_cluster(arguments, security) as cluster:
            cluster.scale(jobs=arguments.count)
            try:
                cluster.wait_for_workers(arguments.count, timeout=arguments.wait)
                print(cluster.scheduler_address)
                options = [f"--tls-{name} {directory}/{name}.pem" for name in ("ca", "cert", "key")]
                print(" ".join(options), flush=True)
                sys.stdin.read()
            except TimeoutError:
                sys.exit(
                    f"{arguments.count} jobs did not all run within {arguments.wait:g} s; "
                    "see squeue"
                )
            except KeyboardInterrupt:
                print("ending", file=sys.stderr)


if __name__ == "__main__":
    main()
