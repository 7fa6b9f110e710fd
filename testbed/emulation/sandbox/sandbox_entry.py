"""Enters a sandbox: creates its namespaces, continues in them, and passes on how the inside ends.

It is a stand-alone program too, which ``sandbox_command`` starts with ``python -I -S``. It imports
only the standard library.

    sandbox_entry.py OPTIONS COMMAND...

OPTIONS are JSON: the keyword arguments of ``sandbox_command``.

There are three processes. The outer one keeps the process id of the caller, and waits outside. The
first process inside is the init of the process namespace, and waits for orphans. The command is its
child. The kernel kills init when the outer process dies in any way, and with init everything
inside. So nothing remains however the sandbox ends: no process, interface, mount or file.
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

# Namespaces (clone(2), time_namespaces(7)).
CLONE_NEWTIME = 0x00000080
CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

# Flags of mount(2).
MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18

# Files through which a program of root could change the whole machine. Of these, only
# /proc/sys/net belongs to the network namespace.
READ_ONLY = (
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
    "/proc/scsi",
    "/proc/acpi",
)

PR_SET_PDEATHSIG = 1

# The origin of a signal that a terminal sent to the whole process group. Any other signal was sent
# to one process.
SI_KERNEL = 0x80

EXIT_REFUSED = 3

# The run is invalid.
EXIT_KILLED = 4

# Time for the command to end after SIGTERM or SIGHUP.
GRACE_S = 5.0

# Without a deadline, a supervisor wakes up this often.
_IDLE_S = 3600.0

_READ_ONLY_BIND = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC

# A directory for the sandbox's files. It exists on every Linux system, and contains nothing that a
# command would be given as an argument.
PRIVATE_MOUNT = "/dev/shm"

#: Smallest memory of sockets in bytes, by the setting's name in /proc/sys/net/core.
SOCKET_MEMORY_BYTES = {"wmem_default": 4 << 20, "wmem_max": 16 << 20, "rmem_max": 32 << 20}

# Signals that are passed on to the command.
_FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_SUPERVISED = (*_FORWARDED, signal.SIGCHLD)

# struct ifreq with flags: name, flags, padding.
_IFREQ = "16sH14x"

_libc = ctypes.CDLL(None, use_errno=True)


class RefusedError(Exception):
    """The kernel refused a step; the text says which, and how to allow it."""


def main(arguments: list[str]) -> int:
    """Run a command in new namespaces.

    Args:
        arguments: OPTIONS, and the command with its arguments.

    Returns:
        127 if the command cannot be started. Otherwise the process becomes the command; the outer
        process ends with its exit code, or with 128 + n if signal n ended it.
    """
    command = arguments[1:]
    enter(json.loads(arguments[0]))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"testbed: cannot run {command[0]}: {error.strerror}", file=sys.stderr, flush=True)
    return 127


def enter(options: dict[str, object]) -> None:
    """Continue in new namespaces.

    The function returns in the innermost of three processes, in which no forwarded signal is
    blocked. The other two processes end with the exit code of this one, or with EXIT_REFUSED and
    one line on stderr.

    The caller must have only one thread, because others would not continue, and must have flushed
    Python's buffers, because each process would write their contents.

    Args:
        options: The keyword arguments of ``sandbox_command``.
    """
    explain = bool(options.get("explain_kill"))
    if options.get("die_with_parent"):
        _die_with_parent()
    # Only the machine's root may do this, so it must happen before the user namespace changes.
    _raise_socket_memory()
    try:
        _unshare()
        if options.get("clock_offset_s"):
            # A time namespace applies to children only, so it must exist before the fork. It needs
            # the capabilities that the user namespace gives.
            _offset_clocks(float(str(options["clock_offset_s"])))
        # Blocked before the fork, so that no signal is lost before a supervisor waits for it.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SUPERVISED)
        # The outer process has the only writing end of this pipe while it lives.
        alive, writing_end = os.pipe()
        init = os.fork()
        if init != 0:
            os.close(alive)
            os._exit(_supervise(init, explain))
        os.close(writing_end)
        _become_init(alive)
        os.environ.update(_environment(_prepare()))
    except RefusedError as refusal:
        print(f"testbed: {refusal}", file=sys.stderr, flush=True)
        os._exit(EXIT_REFUSED)
    child = os.fork()
    if child != 0:
        os._exit(_supervise(child, explain))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SUPERVISED)


def _unshare() -> None:
    """Enter new network, mount, cgroup and System V IPC namespaces.

    The children of this process are in a new process namespace. A user who is not root also enters
    a user namespace, in which this user is root. So does root if the kernel refuses the other
    namespaces alone, as in some containers.

    Raises:
        RefusedError: The kernel refused.
    """
    flags = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWCGROUP | CLONE_NEWIPC
    if os.geteuid() == 0 and _libc.unshare(flags) == 0:
        return
    # In the new user namespace, these ids would be those of "nobody".
    uid = os.geteuid()
    gid = os.getegid()
    if _libc.unshare(flags | CLONE_NEWUSER) != 0:
        raise RefusedError(
            f"the kernel refuses new namespaces ({os.strerror(ctypes.get_errno())}); "
            f"{_how_to_allow()}"
        )
    # The kernel accepts a map of groups only after setgroups(2) was denied: otherwise a user could
    # drop a group by which a file is closed to him.
    settings = (
        ("setgroups", "deny"),
        ("uid_map", f"0 {uid} 1"),
        ("gid_map", f"0 {gid} 1"),
    )
    try:
        for name, text in settings:
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    except OSError as error:
        raise RefusedError(
            f"the user namespace cannot be set up ({error.strerror}); {_how_to_allow()}"
        ) from error


def _offset_clocks(offset_s: float) -> None:
    """Put children into a time namespace, whose monotonic clocks are ahead by this many seconds."""
    if _libc.unshare(CLONE_NEWTIME) != 0:
        raise RefusedError(
            f"the kernel refuses a time namespace ({os.strerror(ctypes.get_errno())})"
        )
    seconds = int(offset_s // 1)
    nanoseconds = round((offset_s - seconds) * 1e9)
    with open("/proc/self/timens_offsets", "w") as file:
        file.write(f"monotonic {seconds} {nanoseconds}\nboottime {seconds} {nanoseconds}\n")


def _how_to_allow() -> str:
    """Return how to allow user namespaces, depending on the setting that forbids them."""
    # Setting, the value that forbids user namespaces, and a value that allows them.
    settings = (
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("user.max_user_namespaces", "0", "10000"),
    )
    for setting, forbidding, allowing in settings:
        if _read("/proc/sys/" + setting.replace(".", "/")) == forbidding:
            return f"run the command with sudo, or allow them: sudo sysctl -w {setting}={allowing}"
    return "run the command with sudo; in a container, start the container with --privileged"


def _read(path: str) -> str | None:
    """Return the contents of a file without surrounding space, or None if it cannot be read."""
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return None


def _raise_socket_memory() -> None:
    """Raise the default memory of sockets, which is too small for shaped ports.

    All ports of a user-space switch share one sending socket. Only the machine's root may change
    the setting, and only outside the sandbox. If the kernel refuses, ``testbed doctor`` reports it.
    """
    if os.geteuid() != 0:
        return
    for name, required in SOCKET_MEMORY_BYTES.items():
        path = f"/proc/sys/net/core/{name}"
        value = _read(path)
        if value is None or int(value) >= required:
            continue
        try:
            with open(path, "w") as file:
                file.write(str(required))
        except OSError:
            return


def _become_init(alive: int) -> None:
    """Let this process die with the outer one.

    Args:
        alive: Reading end of a pipe whose only writing end the outer process has.
    """
    _die_with_parent()
    # The outer process may have died before the line above, which then has no effect. In this case
    # the pipe has no writing end, and reading returns nothing at once.
    fcntl.fcntl(alive, fcntl.F_SETFL, os.O_NONBLOCK)
    try:
        if os.read(alive, 1) == b"":
            os._exit(EXIT_REFUSED)
    except BlockingIOError:
        # The outer process lives.
        pass
    os.close(alive)


def _die_with_parent() -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _prepare() -> str:
    """Mount the file systems of the sandbox, and set up its loopback interface.

    Returns:
        The private directory, in a tmpfs that disappears with the namespaces.

    Raises:
        RefusedError: The kernel refused.
    """
    # This comes first: otherwise the mounts below would appear on the machine too.
    mount("none", "/", None, MS_REC | MS_PRIVATE, "make mounts private")
    # The machine's /proc would show the processes of the machine. The kernel refuses a new one if
    # a part of the old one is masked, as in some containers.
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mount /proc")
    mount(
        "tmpfs",
        PRIVATE_MOUNT,
        "tmpfs",
        MS_NOSUID | MS_NODEV,
        f"mount a tmpfs on {PRIVATE_MOUNT}",
        "mode=1777",
    )
    # Programs inside can open terminals that are created inside, but not those of the machine.
    terminal_options = "newinstance,ptmxmode=0666,mode=620"
    flags = MS_NOSUID | MS_NOEXEC
    mount("devpts", "/dev/pts", "devpts", flags, "mount /dev/pts", terminal_options)
    run_directory = f"{PRIVATE_MOUNT}/testbed"
    for part in ("run", "log", "db", "etc", "tmp"):
        os.makedirs(f"{run_directory}/{part}")  # noqa: PTH103 - pathlib costs a third of this program's start
    _disable_ipv6()
    _protect_machine()
    _show_own_interfaces()
    _set_loopback_up()
    return run_directory


def _disable_ipv6() -> None:
    for scope in ("default", "all"):
        try:
            with open(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6", "w") as file:
                file.write("1")
        except OSError:
            # A kernel without IPv6 has nothing to switch off.
            break


def _show_own_interfaces() -> None:
    """Mount /sys again, because it shows the interfaces of the network in which it was mounted.

    The control groups in it are retained. ``namespace_holder`` does the same for each host.
    """
    # Opened before the mount covers it.
    groups = "/sys/fs/cgroup"
    retained = None
    if os.path.isdir(groups):  # noqa: PTH112 - as above
        retained = os.open(groups, os.O_PATH)
    # The kernel may refuse, as in a container that hides a part of /sys. It then stays as it was:
    # read-only, since ``_protect_machine`` came before.
    try:
        mount("sysfs", "/sys", "sysfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "mount /sys")
        if retained is not None:
            mount(f"/proc/self/fd/{retained}", groups, None, MS_BIND | MS_REC, f"bind {groups}")
    except RefusedError:
        pass
    if retained is not None:
        os.close(retained)


def _protect_machine() -> None:
    """Make everything read-only through which a program could change the machine beyond the run.

    These are the settings of the kernel, and the control groups and devices in /sys.
    """
    for path in READ_ONLY:
        if os.path.exists(path):  # noqa: PTH110 - pathlib costs a third of this program's start
            # Two steps, because the kernel ignores other flags when it creates a bind mount.
            mount(path, path, None, MS_BIND, f"bind {path}")
            mount("none", path, None, _READ_ONLY_BIND, f"make {path} read-only")
    # These settings belong to the sandbox's own network. The mount comes after that of /proc/sys,
    # and so lies over it.
    network_settings = "/proc/sys/net"
    mount(network_settings, network_settings, None, MS_BIND, f"bind {network_settings}")
    writable = _READ_ONLY_BIND & ~MS_RDONLY
    mount("none", network_settings, None, writable, f"make {network_settings} writable")
    for path in sorted(_mounts_below("/sys")):
        # In a user namespace, the kernel refuses to clear these flags of the machine's mounts.
        retained = os.statvfs(path).f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC)
        read_only = MS_REMOUNT | MS_BIND | MS_RDONLY | retained
        mount("none", path, None, read_only, f"make {path} read-only")


def _mounts_below(directory: str) -> set[str]:
    """Return the visible mount points in a directory, and the directory itself if it is one.

    A mount point that another mount covers, or that cannot be reached, is not returned.
    """
    with open("/proc/self/mountinfo") as file:
        rows = [line.split() for line in file]
    visible = set()
    for row in rows:
        mount_id = row[0]
        path = row[4].encode().decode("unicode_escape")
        if (path + "/").startswith(directory + "/") and _mount_seen_at(path) == mount_id:
            visible.add(path)
    return visible


def _mount_seen_at(path: str) -> str:
    """Return the id of the mount to which a path leads, or "" if it leads nowhere."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return ""
    mount_id = ""
    with open(f"/proc/self/fdinfo/{descriptor}") as file:
        for line in file:
            if line.startswith("mnt_id:"):
                mount_id = line.split()[1]
                break
    os.close(descriptor)
    return mount_id


def _environment(run_directory: str) -> dict[str, str]:
    """Return the environment variables that a process in the sandbox gets in addition.

    Args:
        run_directory: The private directory of the sandbox.
    """
    path = os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin").split(":")
    # Ordinary users may lack the folders with the programs of Open vSwitch and iproute2.
    for folder in ("/usr/local/sbin", "/usr/sbin", "/sbin"):
        if folder not in path:
            path.append(folder)
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
    """Mount a file system, or change the flags of a mount (mount(2)).

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
    encoded_kind = None if kind is None else os.fsencode(kind)
    options = None if data is None else os.fsencode(data)
    result = _libc.mount(
        os.fsencode(source), os.fsencode(target), encoded_kind, ctypes.c_ulong(flags), options
    )
    if result != 0:
        raise RefusedError(
            f"cannot {doing} in the sandbox ({os.strerror(ctypes.get_errno())}); {_how_to_allow()}"
        )


def _set_loopback_up() -> None:
    siocgifflags = 0x8913
    siocsifflags = 0x8914
    iff_up = 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            answer = fcntl.ioctl(sock, siocgifflags, struct.pack(_IFREQ, b"lo", 0))
            _, flags = struct.unpack(_IFREQ, answer)
            fcntl.ioctl(sock, siocsifflags, struct.pack(_IFREQ, b"lo", flags | iff_up))
        except OSError as error:
            # AppArmor lets an ordinary user create namespaces, but gives no capabilities in them.
            raise RefusedError(
                f"no rights over the sandbox's network ({error.strerror}); {_how_to_allow()}"
            ) from error


def _supervise(child: int, explain: bool) -> int:
    """Wait for the child, collect orphans, and pass signals on.

    A child that has not ended GRACE_S after SIGTERM or SIGHUP is killed.

    Args:
        child: The process to wait for.
        explain: If a signal that did not come through this process ends the child, print a line
            and return EXIT_KILLED. Otherwise return 128 plus the signal's number, as a shell does.

    Returns:
        The exit code of this process.
    """
    deadline_s: float | None = None
    killed_here = False
    while True:
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    # No further process has ended.
                    break
                if pid == child:
                    return _exit_code_for(os.waitstatus_to_exitcode(status), explain, killed_here)
        except ChildProcessError:
            return EXIT_REFUSED
        remaining_s = _IDLE_S if deadline_s is None else deadline_s - time.monotonic()
        if remaining_s <= 0:
            os.kill(child, signal.SIGKILL)
            deadline_s = None
            killed_here = True
            continue
        received = signal.sigtimedwait(_SUPERVISED, remaining_s)
        if received is None or received.si_signo == signal.SIGCHLD:
            continue
        if received.si_code == SI_KERNEL:
            # The terminal has sent the signal to the child too.
            continue
        os.kill(child, received.si_signo)
        if received.si_signo in (signal.SIGTERM, signal.SIGHUP) and deadline_s is None:
            deadline_s = time.monotonic() + GRACE_S


def _exit_code_for(code: int, explain: bool, killed_here: bool) -> int:
    """Return the exit code of a supervisor whose child has ended.

    Args:
        code: Exit code of the child, or -n if signal n ended it.
        explain: As for ``_supervise``.
        killed_here: The supervisor itself has killed the child.
    """
    if code >= 0:
        return code
    number = -code
    if explain and number not in _FORWARDED and not killed_here:
        return _explain_kill(number)
    return 128 + number


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
