"""Real MPI processes inside emulated hosts: MPICH's mpiexec runs in the first rank's host and reaches the others as if
by ssh.

Shared memory between ranks is switched off, or no byte would cross the network; check the links' counters all the same.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.sandbox.process_lifetime import confined
from testbed.errors import CapabilityError, TimeLimitError
from testbed.striping.emulated.program_run import Place, ProgramEnd, ProgramNetwork

OVER_THE_NETWORK = {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self"}
"""What makes MPICH's ranks talk by TCP although they share one machine."""

# as ssh would be called: [-x] HOST WORDS..., the words joined and read by a shell
_LAUNCHER = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
pid=$(sed -n "s/^$host //p" "$0.hosts")
[ -n "$pid" ] || { echo "no emulated host has the address $host" >&2; exit 255; }
exec nsenter --uts="/proc/$pid/ns/uts" mnexec -a "$pid" sh -c "exec $*"
"""
# mpiexec looks its own host up, for which no name server answers there
_OWN_FILES = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'


def find_mpiexec() -> Path:
    """MPICH's mpiexec: in the directory the variable TESTBED_MPI names, or next to this Python.

    Raises CapabilityError where there is none (the extra ``mpi`` brings it) or where it is another MPI's.
    """
    named = os.environ.get("TESTBED_MPI")
    directory = Path(named) if named else Path(sys.executable).parent
    for name in ("mpiexec.hydra", "mpiexec"):
        if os.access(directory / name, os.X_OK):
            return directory / name
    raise CapabilityError(
        f"no MPICH in {directory}: install the extra `mpi` (mpi4py and mpich), or let TESTBED_MPI name where mpiexec is"
    )


@contextmanager
def mpi_job(
    net: EmulatedNetwork,
    ranks: Sequence[Place],
    command: Sequence[str],
    *,
    prefixed: bool = False,
    output: int | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """mpiexec of one MPI program on emulated hosts, one rank each; its exit code is that of the program. What is left
    of it ends with the block. ``prefixed``: each line begins with its rank; ``output``: where all that it prints goes,
    as of Popen.

    Raises CapabilityError without MPICH.
    """
    mpiexec = find_mpiexec()
    with tempfile.TemporaryDirectory(prefix="mpi-") as folder:
        launcher = Path(folder) / "launcher"
        launcher.write_text(_LAUNCHER)
        launcher.chmod(0o755)
        hosts = {rank.ip: net.host_pid(rank.host) for rank in ranks}
        launcher.with_name("launcher.hosts").write_text(
            "".join(f"{ip} {pid}\n" for ip, pid in hosts.items())
        )
        names = launcher.with_name("names")
        names.write_text(
            "127.0.0.1 localhost\n" + "".join(f"{rank.ip} {rank.host}\n" for rank in ranks)
        )
        words = mpiexec_words(mpiexec, launcher, ranks, command, prefixed=prefixed)
        with net.run_in_host(
            ranks[0].host,
            ["unshare", "-m", "sh", "-c", _OWN_FILES, "mpiexec", str(names), *words],
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            env={**os.environ, "PATH": f"{mpiexec.parent}:{os.environ.get('PATH', '')}"},
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
        ) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.terminate()  # it ends its ranks
                    try:
                        process.wait(2.0)
                    except subprocess.TimeoutExpired:
                        process.kill()


def mpiexec_words(
    mpiexec: Path, launcher: Path, ranks: Sequence[Place], command: Sequence[str], *, prefixed: bool
) -> list[str]:
    """The command line: a block for each rank, so that each has an environment of its own, on the hosts in their
    order."""
    words = [
        str(mpiexec),
        "-launcher",
        "ssh",
        "-launcher-exec",
        str(launcher),
        "-localhost",
        ranks[0].ip,
    ]
    # mpiexec has to enter the other ranks' hosts: what it starts there gives that right up
    words += [
        "-hosts",
        ",".join(rank.ip for rank in ranks),
        "-ppn",
        "1",
        *(["-l"] if prefixed else []),
    ]
    for name, value in OVER_THE_NETWORK.items():
        words += ["-genv", name, value]
    for number, rank in enumerate(ranks):
        words += [":"] if number else []
        words += ["-n", "1"]
        for name, value in rank.environment.items():
            words += ["-env", name, value]
        words += confined(command)
    return words


def run_under_mpi(
    network: ProgramNetwork,
    command: Sequence[str],
    *,
    prefixed: bool = False,
    time_limit_s: float | None = None,
) -> ProgramEnd:
    """As ProgramNetwork.run, the processes being ranks of one MPI program too: listeners and group are there as ever.

    Which rank failed mpiexec itself says. Raises CapabilityError without MPICH, TimeLimitError when the time is over.
    """
    sys.stdout.flush()
    with mpi_job(network.net, network.places(), command, prefixed=prefixed) as job:
        try:
            code = job.wait(time_limit_s)
        except subprocess.TimeoutExpired:
            raise TimeLimitError(
                f"the program was ended after {time_limit_s:g} s; raise --time-limit"
            ) from None
    return ProgramEnd(exit_code=code if code >= 0 else 128 - code, rank=None)
