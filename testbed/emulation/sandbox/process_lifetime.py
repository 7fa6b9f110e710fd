"""How long a process of ours may live, and what a user's program may do: as root in a sandbox it would otherwise be
root on the machine."""

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


# Remove the directory when the input ends, which the kernel sees to, and the named semaphores that
# have the directory's name. Children of the process that has gone may still write for a moment.
_REMOVE_DIRECTORY = (
    "cat >/dev/null; for again in 1 2 3 4 5; do "
    'rm -rf "$1" /dev/shm/sem."${1##*/}"-*; sleep 1; test -e "$1" || exit; done'
)
_PYTHON = """#!/bin/sh
trap '' INT
exec {python} -P "$@"
"""


@contextmanager
def passing_directory() -> Iterator[Path]:
    """A new directory that only this user may enter, removed when the block is left or this process ends in whatever
    way."""
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
    """Start the Pythons that multiprocessing spawns inside the block as children that we can trust.

    They ignore Ctrl-C, which a terminal sends to every process: the process that started them ends
    them. They import nothing from the current directory, in which another user may have put
    modules. Their semaphores go with this process, also when its whole group is killed.

    A shell that ignores SIGINT becomes Python: a signal that is ignored before a program begins
    stays ignored. If programs in temporary directories may not run, the children heed Ctrl-C.

    Yields:
        A directory that is removed at the end of the block, or when this process ends.
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
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


@contextmanager
def interrupts_after() -> Iterator[None]:
    """Ctrl-C is heeded after the block. A Python that multiprocessing spawns inside is told all that it needs before
    its parent can be interrupted; otherwise it would say at length that it was told nothing.

    The kernel gives Ctrl-C to any thread that does not block it, and Python raises it in the main one: blocked there
    alone it would still come, so it is noted and raised again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: arrived.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if arrived:
            signal.raise_signal(signal.SIGINT)


# Words before a program that the kernel kills when its parent ends. A function that runs between fork and
# exec could do it too, but not in a process with threads.
ENDS_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")


def die_with_parent() -> None:
    """Let the kernel kill the calling process when its parent ends, however that ends; to be called first thing in a
    child."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def is_alone() -> bool:
    """Return whether this process has one thread.

    The threads of numpy's and scipy's OpenBLAS end before a fork, and begin again when there is work.
    """
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return len(list(Path("/proc/self/task").iterdir())) == 1


def begin_child(niceness: int | None = None, *, with_parent: bool = True) -> None:
    """First thing in a process that serves another one: it ends with it, leaves Ctrl-C to it and has its place among
    the others, where this user may choose one. ``with_parent`` false: for one that a thread starts which ends before
    the process does, because the kernel takes the thread for the parent."""
    if with_parent:
        die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if niceness is not None:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, niceness)


def await_own_network(pid: int, limit_s: float, lives: Callable[[], bool] = lambda: True) -> bool:
    """Whether that process is in a network namespace other than ours within the limit, and while it ``lives``."""
    ours, theirs, until = (
        Path("/proc/self/ns/net").readlink(),
        Path(f"/proc/{pid}/ns/net"),
        time.monotonic() + limit_s,
    )
    while time.monotonic() < until and lives():
        with suppress(OSError):
            if theirs.readlink() != ours:
                return True
        time.sleep(0.002)
    return False


_RIGHTS = (
    "chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,net_bind_service,net_broadcast,net_admin,net_raw,ipc_lock,ipc_owner,"
    "sys_chroot,sys_nice,sys_resource,audit_write"
)
"""Capabilities of root (see capabilities(7)) that a program in a host keeps: over files, over its host's network, over
itself."""


def confined(argv: Sequence[str]) -> list[str]:
    """The command line that runs a user's program where it already is, without the rights to change the machine, or
    gain them: no mounts, modules, devices, clocks, BPF programs, no other host's namespaces, no looking into the
    testbed's own processes.
    """
    retained = ",".join(f"+{right}" for right in _RIGHTS.split(","))
    return ["setpriv", "--no-new-privs", f"--bounding-set=-all,{retained}", *argv]
