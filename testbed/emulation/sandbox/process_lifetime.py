"""Limits the lifetime of the testbed's processes, and the privileges of users' programs.

A program that runs as root in a sandbox would otherwise be root on the machine.
"""

import ctypes
import os
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import process, spawn
from pathlib import Path
from tempfile import mkdtemp

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)

# Time between two looks at the namespace of a process.
_POLL_S = 0.002

# Deletes a directory, and the named semaphores that have its name, when the input ends. The kernel
# closes the input when the process that owns the directory ends. Children of that process may still
# write for a moment, so the directory is deleted again.
_REMOVE_DIRECTORY = (
    "cat >/dev/null; for again in 1 2 3 4 5; do "
    'rm -rf "$1" /dev/shm/sem."${1##*/}"-*; sleep 1; test -e "$1" || exit; done'
)

# Becomes Python with its arguments.
_PYTHON = """#!/bin/sh
trap '' INT
exec {python} -P "$@"
"""


@contextmanager
def passing_directory() -> Iterator[Path]:
    """Create a directory that only this user may enter.

    It is deleted at the end of the block, or when this process ends in any way.
    """
    path = Path(mkdtemp(prefix="testbed-"))
    remover = subprocess.Popen(
        ["sh", "-c", _REMOVE_DIRECTORY, "sh", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        remover.kill()
        remover.communicate()


@contextmanager
def spawned_children() -> Iterator[Path]:
    """Let multiprocessing spawn safe Python processes during the block.

    - They ignore Ctrl-C, which a terminal sends to every process. The process that started them
      ends them.
    - They import nothing from the current directory, in which another user may have put modules.
    - Their semaphores disappear with this process, even if its whole group is killed.

    Each is started as a shell that ignores SIGINT and then becomes Python, because a signal that is
    ignored before a program starts stays ignored. If programs in temporary directories may not run,
    the processes do not ignore Ctrl-C.

    Yields:
        A directory that is deleted at the end of the block, or when this process ends.
    """
    usual = spawn.get_executable()
    python = usual.decode() if isinstance(usual, bytes) else usual
    # A semaphore of multiprocessing has this name and a random part. There is no public setting.
    config = vars(process.current_process())["_config"]
    prefix = config["semprefix"]
    with passing_directory() as directory:
        wrapper = directory / "python"
        config["semprefix"] = f"/{directory.name}"
        try:
            if os.statvfs(directory).f_flag & os.ST_NOEXEC:
                with _environment_variable("PYTHONSAFEPATH", "1"):
                    yield directory
            else:
                wrapper.write_text(_PYTHON.format(python=shlex.quote(python)))
                wrapper.chmod(0o755)
                spawn.set_executable(str(wrapper))
                yield directory
        finally:
            spawn.set_executable(python)
            config["semprefix"] = prefix


@contextmanager
def _environment_variable(name: str, value: str) -> Iterator[None]:
    """Set an environment variable during the block."""
    previous = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if previous is not None:
            os.environ[name] = previous


@contextmanager
def interrupts_after() -> Iterator[None]:
    """Postpone Ctrl-C until the end of the block.

    A Python process that multiprocessing spawns in the block gets all its data before its parent
    can be interrupted. Otherwise it would print a traceback about missing data.

    Blocking the signal in the main thread would not help: the kernel delivers it to any thread that
    does not block it, and Python then raises KeyboardInterrupt in the main thread. So the signal is
    noted, and raised again at the end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, _: arrived.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if arrived:
            signal.raise_signal(signal.SIGINT)


# The beginning of the command line of a program that the kernel kills when its parent ends. A
# function between fork and exec (``preexec_fn``) could request it too, but is not safe in a process
# with threads.
ENDS_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")


def die_with_parent() -> None:
    """Let the kernel kill the calling process when its parent ends in any way.

    A child calls this first. If the parent has ended before, the call has no effect.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def is_alone() -> bool:
    """Return whether this process has one thread.

    Idle threads of numpy's and scipy's OpenBLAS do not count. They end before a fork, and start
    again when there is work, so the function forks before it counts.
    """
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return len(list(Path("/proc/self/task").iterdir())) == 1


def begin_child(niceness: int | None = None, *, with_parent: bool = True) -> None:
    """Prepare a process that serves its parent; it calls this first.

    The process ends with its parent, and leaves Ctrl-C to the parent.

    Args:
        niceness: Nice value of the process, if this user may choose it; None for no change.
        with_parent: The process ends with its parent. False for a process that a short-lived thread
            starts, because the kernel takes the thread for the parent.
    """
    if with_parent:
        die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if niceness is not None:
        # Ordinary users may only lower their priority.
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, niceness)


def await_own_network(pid: int, limit_s: float, lives: Callable[[], bool] = lambda: True) -> bool:
    """Wait until a process has entered another network namespace than this process is in.

    Args:
        pid: The process.
        limit_s: Time limit in seconds.
        lives: Returns whether the process still lives; the wait ends if not.

    Returns:
        True if it has entered another namespace in time.
    """
    own_network = Path("/proc/self/ns/net").readlink()
    network = Path(f"/proc/{pid}/ns/net")
    deadline_s = time.monotonic() + limit_s
    while time.monotonic() < deadline_s and lives():
        # The process may have ended, or not have begun.
        with suppress(OSError):
            if network.readlink() != own_network:
                return True
        time.sleep(_POLL_S)
    return False


# Capabilities of root (capabilities(7)) that a program in a host retains: over files, over the
# network of its host, and over itself.
_CAPABILITIES = (
    "chown",
    "dac_override",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "net_bind_service",
    "net_broadcast",
    "net_admin",
    "net_raw",
    "ipc_lock",
    "ipc_owner",
    "sys_chroot",
    "sys_nice",
    "sys_resource",
    "audit_write",
)


def confined(argv: Sequence[str]) -> list[str]:
    """Return the command line that runs a user's program without privileges over the machine.

    The program runs in the namespaces of its caller. It cannot mount file systems, load modules or
    BPF programs, use devices, set clocks, enter another host's namespaces, or inspect the testbed's
    own processes, and it cannot gain the privileges for that.

    Args:
        argv: The program and its arguments.
    """
    retained = ",".join(f"+{capability}" for capability in _CAPABILITIES)
    return ["setpriv", "--no-new-privs", f"--bounding-set=-all,{retained}", *argv]
