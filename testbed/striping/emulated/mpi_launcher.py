"""Real MPI processes inside emulated hosts, started by MPICH's mpiexec.

mpiexec runs in the host of the first rank, and reaches the others through a program that replaces
ssh. Shared memory between ranks is disabled, because otherwise no byte would cross the network.
Check the links' counters all the same.
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

# These settings make MPICH's ranks communicate by TCP although they are on one machine.
OVER_THE_NETWORK = {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self"}

# The replacement of ssh, which is called as [-x] HOST ARGUMENTS. As with ssh, the arguments are
# joined and read by a shell.
_LAUNCHER = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
pid=$(sed -n "s/^$host //p" "$0.hosts")
[ -n "$pid" ] || { echo "no emulated host has the address $host" >&2; exit 255; }
exec nsenter --uts="/proc/$pid/ns/uts" mnexec -a "$pid" sh -c "exec $*"
"""
# A shell script that replaces /etc/hosts by a file ($1) and runs a command ($2 ...). mpiexec looks
# up the name of its host, and no name server can be reached from inside the emulated host.
_WITH_HOSTS_FILE = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'
# How long mpiexec may take to end its ranks.
_END_S = 2.0


def find_mpiexec() -> Path:
    """Return the path of MPICH's mpiexec.

    It is in the directory that the variable TESTBED_MPI names, or next to this Python.

    Raises:
        CapabilityError: There is none (the extra ``mpi`` installs it).
    """
    named = os.environ.get("TESTBED_MPI")
    directory = Path(named) if named else Path(sys.executable).parent
    for name in ("mpiexec.hydra", "mpiexec"):
        if os.access(directory / name, os.X_OK):
            return directory / name
    raise CapabilityError(
        f"no MPICH in {directory}: install the extra `mpi` (mpi4py and mpich), or let TESTBED_MPI"
        " name where mpiexec is"
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
    """Run mpiexec for one MPI program on emulated hosts, one rank each.

    Its exit code is that of the program. At the end of the block the program is ended.

    Args:
        net: The network.
        ranks: The hosts of the ranks.
        command: The command line of the program.
        prefixed: Whether each line of output begins with its rank.
        output: The file descriptor to which everything is printed, as for Popen.

    Raises:
        CapabilityError: MPICH is not installed.
    """
    mpiexec = find_mpiexec()
    with tempfile.TemporaryDirectory(prefix="mpi-") as folder:
        launcher = Path(folder) / "launcher"
        launcher.write_text(_LAUNCHER)
        launcher.chmod(0o755)
        processes = [f"{rank.ip} {net.host_pid(rank.host)}\n" for rank in ranks]
        launcher.with_name("launcher.hosts").write_text("".join(processes))
        names = launcher.with_name("names")
        lines = [f"{rank.ip} {rank.host}\n" for rank in ranks]
        names.write_text("127.0.0.1 localhost\n" + "".join(lines))
        argv = mpiexec_argv(mpiexec, launcher, ranks, command, prefixed=prefixed)
        with net.run_in_host(
            ranks[0].host,
            ["unshare", "-m", "sh", "-c", _WITH_HOSTS_FILE, "mpiexec", str(names), *argv],
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
                _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """End mpiexec if it runs; on SIGTERM it ends its ranks."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()


def mpiexec_argv(
    mpiexec: Path, launcher: Path, ranks: Sequence[Place], command: Sequence[str], *, prefixed: bool
) -> list[str]:
    """Return the command line of mpiexec.

    It has a block for each rank, because each has its own environment. The ranks are assigned to
    the hosts in order.

    Args:
        mpiexec: The path of mpiexec.
        launcher: The program that replaces ssh.
        ranks: The hosts of the ranks.
        command: The command line of the program.
        prefixed: Whether each line of output begins with its rank.
    """
    argv = [str(mpiexec)]
    argv += ["-launcher", "ssh", "-launcher-exec", str(launcher), "-localhost", ranks[0].ip]
    argv += ["-hosts", ",".join(rank.ip for rank in ranks), "-ppn", "1"]
    if prefixed:
        argv.append("-l")
    for name, value in OVER_THE_NETWORK.items():
        argv += ["-genv", name, value]
    for number, rank in enumerate(ranks):
        if number > 0:
            argv.append(":")
        argv += ["-n", "1"]
        for name, value in rank.environment.items():
            argv += ["-env", name, value]
        # mpiexec needs the right to enter the other hosts. The programs that it starts give it up.
        argv += confined(command)
    return argv


def run_under_mpi(
    network: ProgramNetwork,
    command: Sequence[str],
    *,
    prefixed: bool = False,
    time_limit_s: float | None = None,
) -> ProgramEnd:
    """Run a command like ``ProgramNetwork.run``, its processes also being ranks of an MPI program.

    Listeners and the process group are available as usual. mpiexec itself prints which rank failed.

    Args:
        network: The network.
        command: The command line of the program.
        prefixed: Whether each line of output begins with its rank.
        time_limit_s: The time after which the program is ended. None: no limit.

    Raises:
        CapabilityError: MPICH is not installed.
        TimeLimitError: The time limit was reached.
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
