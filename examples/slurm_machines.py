"""Machines for ``testbed --machines``: a Dask scheduler here and one worker in each of COUNT jobs of SLURM.

    python examples/slurm_machines.py [--interface NAME] [--head-interface NAME] [--queue NAME] [--sbatch OPTION ...]
    COUNT

Prints the scheduler's address, which is what ``--machines`` takes, and the options that go with it when all jobs run,
and ends them when its input ends or Ctrl-C is pressed. All speak TLS with certificates that are made for this one time
and lie, until the end, in a directory below --shared that only this user may enter. Every node needs this package in
the same version and Python at the same path as here. A node that two jobs share is two machines with one address, which
cannot be: --sbatch=--exclusive, where nodes are shared. Needs dask-jobqueue (pip install '.[clusters]' in the project
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


def written(directory: Path) -> Security:
    """Certificates for all, in files of the directory."""
    made, files = (
        Security.temporary(),
        {name: directory / f"{name}.pem" for name in ("ca", "cert", "key")},
    )
    for name, text in (
        ("ca", made.tls_ca_file),
        ("cert", made.tls_client_cert),
        ("key", made.tls_client_key),
    ):
        files[name].touch(mode=0o600)
        files[name].write_text(text)
    roles = {
        f"tls_{role}_{p}": str(files[p])
        for role in ("client", "scheduler", "worker")
        for p in ("cert", "key")
    }
    return Security(require_encryption=True, tls_ca_file=str(files["ca"]), **roles)


def main() -> None:
    """Hold the jobs until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--interface", help="of the nodes, towards here (default: that of the host's name)"
    )
    parser.add_argument(
        "--head-interface", help="of this host, towards the nodes (default: the same name)"
    )
    parser.add_argument("--queue", help="partition of SLURM (default: its own default)")
    parser.add_argument("--memory", default="2GB", help="to ask for, a job (default 2GB)")
    parser.add_argument("--cores", type=int, default=2, help="to ask for, a job (default 2)")
    parser.add_argument(
        "--sbatch", action="append", default=[], metavar="OPTION", help="another option of sbatch"
    )
    parser.add_argument(
        "--wait", type=float, default=120, help="seconds until all jobs have to run (default 120)"
    )
    parser.add_argument(
        "--shared",
        type=Path,
        default=Path.home(),
        help="directory that every node has (default: home)",
    )
    parser.add_argument("count", type=int, help="jobs, each a machine")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    path = os.environ.get("PYTHONPATH")
    certificates = tempfile.TemporaryDirectory(prefix=".testbed-tls-", dir=args.shared)
    cluster = SLURMCluster(
        queue=args.queue,
        cores=args.cores,
        processes=1,
        protocol="tls",
        security=written(Path(certificates.name)),
        memory=args.memory,
        interface=args.interface,
        python=f"{sys.executable} -P",  # modules of the current directory are not imported
        # no nanny: nothing starts a dead machine again; its memory is that of a whole network, which Dask need not
        # watch
        nanny=False,
        worker_extra_args=["--nthreads", "1", "--memory-limit", "0", "--no-dashboard"],
        job_script_prologue=[f"export PYTHONPATH={path}"] if path else [],
        job_extra_directives=args.sbatch,
        scheduler_options={"dashboard": False}
        | ({"interface": args.head_interface} if args.head_interface else {}),
    )
    with certificates as directory, cluster:
        cluster.scale(jobs=args.count)
        try:
            cluster.wait_for_workers(args.count, timeout=args.wait)
            words = (f"--tls-{name} {directory}/{name}.pem" for name in ("ca", "cert", "key"))
            print(cluster.scheduler_address, " ".join(words), sep="\n", flush=True)
            sys.stdin.read()
        except TimeoutError:
            sys.exit(f"{args.count} jobs did not all run within {args.wait:g} s; see squeue")
        except KeyboardInterrupt:
            print("ending", file=sys.stderr)


if __name__ == "__main__":
    main()
