"""The door of the sandbox: makes the namespaces, goes on in them or runs one command there, and passes its end on.

A stand-alone program too, which ``sandbox_command`` starts with ``python -I -S``; it imports only the standard library.

    sandbox_entry.py OPTIONS COMMAND...        OPTIONS: JSON, see ``Options``

Three processes: the outer one (the caller's own process id) waits outside; the first process inside is the namespaces'
init (it collects orphans); the command is its child. The kernel kills init when the outer one dies in any way, and
everything inside with init, so that no way of ending leaves anything: no process, interface, mount or file.
"""

import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys
import time

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = (
    0x00020000,
    0x10000000,
    0x20000000,
    0x40000000,
)
CLONE_NEWTIME, CLONE_NEWCGROUP, CLONE_NEWIPC = 0x00000080, 0x02000000, 0x08000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
READ_ONLY = (
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
    "/proc/scsi",
    "/proc/acpi",
)
"""What a program of root's could set for the whole machine; only /proc/sys/net belongs to the network namespace."""
PR_SET_PDEATHSIG = 1
SI_KERNEL = 0x80  # the terminal sent the signal to the whole process group; anything else was sent to one process
EXIT_REFUSED = 3
EXIT_KILLED = 4  # the run is invalid
GRACE_S = 5.0
_READ_ONLY_BIND = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
PRIVATE_MOUNT = "/dev/shm"  # exists on every Linux system, holds nothing that a command would be given as an argument
SOCKET_MEMORY_BYTES = {"wmem_default": 4 << 20, "wmem_max": 16 << 20, "rmem_max": 32 << 20}

_FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_libc = ctypes.CDLL(None, use_errno=True)


class RefusedError(Exception):
    """The kernel refused a step; the text says which, and how to allow it."""


def main(words: list[str]) -> int:
    """Run the command of ``words`` in fresh namespaces; the exit code is its own (128 + signal where a signal ended
    it)."""
    command = words[1:]
    enter(json.loads(words[0]))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"testbed: cannot run {command[0]}: {error.strerror}", file=sys.stderr, flush=True)
    return 127


def enter(options: dict[str, object]) -> None:
    """Go on in fresh namespaces: returns in the innermost of three processes, which has the mask of signals of a new
    one; the others end with its exit code, or with EXIT_REFUSED and one line on stderr. To be called where there is one
    thread, and with nothing left in Python's buffers."""
    explain = bool(options.get("explain_kill"))
    if options.get("die_with_parent"):
        _die_with_parent()
    _raise_socket_memory()
    try:
        _unshare()
        if options.get("clock_offset_s"):
            _set_clocks_off(float(str(options["clock_offset_s"])))
        signal.pthread_sigmask(signal.SIG_BLOCK, (*_FORWARDED, signal.SIGCHLD))
        alive, ours = os.pipe()
        if (init := os.fork()) != 0:
            os.close(alive)
            os._exit(_supervise(init, explain))
        os.close(ours)
        _become_init(alive)
        os.environ.update(_environment(_prepare(options)))
    except RefusedError as refused:
        print(f"testbed: {refused}", file=sys.stderr, flush=True)
        os._exit(EXIT_REFUSED)
    if (child := os.fork()) != 0:
        os._exit(_supervise(child, explain))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*_FORWARDED, signal.SIGCHLD))


def _unshare() -> None:
    """Enter new network, mount, cgroup, System V IPC and (for children) process namespaces; a user namespace too where
    the user is not root."""
    flags = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWCGROUP | CLONE_NEWIPC
    if os.geteuid() == 0 and _libc.unshare(flags) == 0:
        return
    uid, gid = os.geteuid(), os.getegid()
    if _libc.unshare(flags | CLONE_NEWUSER) != 0:
        raise RefusedError(
            f"the kernel refuses new namespaces ({os.strerror(ctypes.get_errno())}); {_how_to_allow()}"
        )
    try:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"0 {uid} 1"),
            ("gid_map", f"0 {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    except OSError as error:
        raise RefusedError(
            f"the user namespace cannot be set up ({error.strerror}); {_how_to_allow()}"
        ) from error


def _set_clocks_off(seconds: float) -> None:
    """What is forked from now on lives in a time namespace, whose monotonic clock is ahead by so much."""
    if _libc.unshare(CLONE_NEWTIME) != 0:
        raise RefusedError(
            f"the kernel refuses a time namespace ({os.strerror(ctypes.get_errno())})"
        )
    whole = int(seconds // 1)
    nanoseconds = round((seconds - whole) * 1e9)
    with open("/proc/self/timens_offsets", "w") as file:
        file.write(f"monotonic {whole} {nanoseconds}\nboottime {whole} {nanoseconds}\n")


def _how_to_allow() -> str:
    for path, asks in (
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
        ("/proc/sys/kernel/unprivileged_userns_clone", "0"),
        ("/proc/sys/user/max_user_namespaces", "0"),
    ):
        if _read(path) == asks:
            setting = path.removeprefix("/proc/sys/").replace("/", ".")
            value = {"1": "0", "0": "1"}[asks] if "max" not in setting else "10000"
            return f"run the command with sudo, or allow them: sudo sysctl -w {setting}={value}"
    return "run the command with sudo; in a container, start the container with --privileged"


def _read(path: str) -> str | None:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return None


def _raise_socket_memory() -> None:
    """All ports of the user-space switch share one send socket: with shaped ports its default memory is too little.

    The kernel lets only the machine's root set it, outside the sandbox; where it refuses, ``doctor`` says so.
    """
    if os.geteuid() != 0:
        return
    for name, required in SOCKET_MEMORY_BYTES.items():
        path = f"/proc/sys/net/core/{name}"
        have = _read(path)
        if have is None or int(have) >= required:
            continue
        try:
            with open(path, "w") as file:
                file.write(str(required))
        except OSError:
            return


def _become_init(alive: int) -> None:
    _die_with_parent()
    # The outer process may have died before the line above: then nobody holds the pipe's other end any more.
    fcntl.fcntl(alive, fcntl.F_SETFL, os.O_NONBLOCK)
    try:
        if os.read(alive, 1) == b"":
            os._exit(EXIT_REFUSED)
    except BlockingIOError:
        pass
    os.close(alive)


def _die_with_parent() -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _prepare(options: dict[str, object]) -> str:
    """Mounts and loopback of the new namespaces; returns the private directory, on a tmpfs that vanishes with them."""
    mount("none", "/", None, MS_REC | MS_PRIVATE, "make mounts private")
    mount(
        "proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mount /proc"
    )  # refused where /proc is masked
    mount(
        "tmpfs",
        PRIVATE_MOUNT,
        "tmpfs",
        MS_NOSUID | MS_NODEV,
        f"mount a tmpfs on {PRIVATE_MOUNT}",
        "mode=1777",
    )
    # Terminals that are made inside; those of the machine have no names there.
    options_of_terminals = "newinstance,ptmxmode=0666,mode=620"
    flags = MS_NOSUID | MS_NOEXEC
    mount("devpts", "/dev/pts", "devpts", flags, "mount /dev/pts", options_of_terminals)
    run_directory = f"{PRIVATE_MOUNT}/testbed"
    for part in ("run", "log", "db", "etc", "tmp"):
        os.makedirs(f"{run_directory}/{part}")  # noqa: PTH103 - pathlib costs a third of this program's start
    for scope in ("default", "all"):
        try:
            with open(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6", "w") as file:
                file.write("1")
        except OSError:
            break  # a kernel without IPv6 has nothing to switch off
    _protect_machine()
    _show_own_interfaces()
    _loopback_up()
    return run_directory


def _show_own_interfaces() -> None:
    """As of ``namespace_holder``, which is a program by itself too, before its hosts have any."""
    groups = "/sys/fs/cgroup"
    retained = os.open(groups, os.O_PATH) if os.path.isdir(groups) else None  # noqa: PTH112 - as above
    try:
        mount("sysfs", "/sys", "sysfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "mount /sys")
        if retained is not None:
            mount(f"/proc/self/fd/{retained}", groups, None, MS_BIND | MS_REC, f"bind {groups}")
    except RefusedError:
        pass
    if retained is not None:
        os.close(retained)


def _protect_machine() -> None:
    """Make what would stay on the machine after the run readable only.

    These are the settings of its kernel, and the control groups and devices in /sys.
    """
    for path in READ_ONLY:
        if os.path.exists(path):  # noqa: PTH110 - pathlib costs a third of this program's start
            mount(path, path, None, MS_BIND, f"bind {path}")
            mount("none", path, None, _READ_ONLY_BIND, f"make {path} read-only")
    mount("/proc/sys/net", "/proc/sys/net", None, MS_BIND, "bind /proc/sys/net")
    mount(
        "none", "/proc/sys/net", None, _READ_ONLY_BIND & ~MS_RDONLY, "make /proc/sys/net writable"
    )
    for path in sorted(_mounts_below("/sys")):
        retained = os.statvfs(path).f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC)
        mount(
            "none",
            path,
            None,
            MS_REMOUNT | MS_BIND | MS_RDONLY | retained,
            f"make {path} read-only",
        )


def _mounts_below(directory: str) -> set[str]:
    """Mount points that can be reached and that no other mount hides: ``directory``, and those below it."""
    with open("/proc/self/mountinfo") as file:
        found = {
            words[0]: words[4].encode().decode("unicode_escape") for words in map(str.split, file)
        }
    below = {
        number: path for number, path in found.items() if (path + "/").startswith(directory + "/")
    }
    return {path for number, path in below.items() if _mount_seen_at(path) == number}


def _mount_seen_at(path: str) -> str:
    """The number of the mount that a path leads to, "" where nothing can be reached."""
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return ""
    with open(f"/proc/self/fdinfo/{opened}") as file:
        number = next((line.split()[1] for line in file if line.startswith("mnt_id:")), "")
    os.close(opened)
    return number


def _environment(run_directory: str) -> dict[str, str]:
    path = os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin").split(":")
    path += [d for d in ("/usr/local/sbin", "/usr/sbin", "/sbin") if d not in path]
    return {
        "TESTBED_SANDBOX": run_directory,
        "TESTBED_SANDBOX_NETWORK": os.readlink("/proc/self/ns/net"),  # noqa: PTH115 - as above
        "OVS_RUNDIR": f"{run_directory}/run",
        "OVS_LOGDIR": f"{run_directory}/log",
        "OVS_DBDIR": f"{run_directory}/db",
        "OVS_SYSCONFDIR": f"{run_directory}/etc",
        "TMPDIR": f"{run_directory}/tmp",
        "PATH": ":".join(path),
    }


def mount(
    source: str, target: str, kind: str | None, flags: int, doing: str, data: str | None = None
) -> None:
    """Call mount(2).

    Args:
        source: What is mounted; unused for file systems without a device.
        target: Where it is mounted.
        kind: The type of the file system, or None for binds and changes of flags.
        flags: Constants MS_...
        doing: The purpose, for the error.
        data: Options of the file system.

    Raises:
        RefusedError: The kernel refused.
    """
    encoded = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    options = None if data is None else os.fsencode(data)
    if _libc.mount(*encoded, ctypes.c_ulong(flags), options) != 0:
        raise RefusedError(
            f"cannot {doing} in the sandbox ({os.strerror(ctypes.get_errno())}); {_how_to_allow()}"
        )


def _loopback_up() -> None:
    siocgifflags, siocsifflags, iff_up = 0x8913, 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            answer = fcntl.ioctl(sock, siocgifflags, struct.pack("16sH14x", b"lo", 0))
            flags = struct.unpack("16sH14x", answer)[1]
            fcntl.ioctl(sock, siocsifflags, struct.pack("16sH14x", b"lo", flags | iff_up))
        except OSError as error:
            # AppArmor lets an ordinary user make namespaces but gives no rights in them.
            raise RefusedError(
                f"no rights over the sandbox's network ({error.strerror}); {_how_to_allow()}"
            ) from error


def _supervise(child: int, explain: bool) -> int:
    """Wait for the child, collect orphans, pass signals on; a child that ignores SIGTERM for GRACE_S is given up.

    Args:
        child: The process to wait for.
        explain: If a signal that did not come through this process ends the child, print a line
            and return EXIT_KILLED. Otherwise return 128 plus the signal's number, as a shell does.
    """
    patience: float | None = None
    given_up = False
    while True:
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == child:
                    code = os.waitstatus_to_exitcode(ended[1])
                    if code >= 0:
                        return code
                    if explain and -code not in _FORWARDED and not given_up:
                        return _explain_kill(-code)
                    return 128 - code
        except ChildProcessError:
            return EXIT_REFUSED
        left = 3600.0 if patience is None else patience - time.monotonic()
        if left <= 0:
            os.kill(child, signal.SIGKILL)
            patience = None
            given_up = True
            continue
        got = signal.sigtimedwait((*_FORWARDED, signal.SIGCHLD), left)
        if got is None or got.si_signo == signal.SIGCHLD or got.si_code == SI_KERNEL:
            continue
        os.kill(child, got.si_signo)
        if got.si_signo in (signal.SIGTERM, signal.SIGHUP) and patience is None:
            patience = time.monotonic() + GRACE_S


def _explain_kill(number: int) -> int:
    """Print that a signal has ended the process that measures, and return the exit code."""
    name = signal.strsignal(number)
    print(
        f"testbed: the process that measures was ended from outside (signal {number}, {name}): "
        "the run is invalid; if nobody killed it, the machine may be out of memory",
        file=sys.stderr,
        flush=True,
    )
    return EXIT_KILLED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
