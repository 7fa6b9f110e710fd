"""Keeps the namespaces of emulated hosts (network, host name, mounts) alive: a program of its own.

    namespace_holder.py HOSTNAME ...

It has one sleeping thread for each host. ``host_namespaces`` runs it with ``python -I -S``. It
prints the ids of the threads, one per line, and lives until its standard input is closed.

A thread's namespaces are entered like those of a process, through /proc/ID/ns. A thread needs some
30 kB of memory, and a process of this program 600 kB.
"""

import _thread
import ctypes
import errno
import os
import socket
import sys

# ``python -I`` does not add the program's folder to the search path.
sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120 - pathlib takes time
import host_view  # type: ignore[import-not-found] # it is in this program's folder

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWNET = 0x40000000
MNT_DETACH = 2
MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_BIND = 4096
MS_REC = 16384

# Settings below /proc/sys/net of each host.
#
# If the transmit queue of the host is full, packets are dropped before they reach the cable. TCP
# treats such a drop as a lack of resources of the machine: it retransmits every 0.5 s, and closes
# the connection after ``tcp_retries2`` drops in a row. With the default of 15, this would be after
# 7.5 s.
SETTINGS = {
    "ipv6/conf/default/disable_ipv6": "1",
    "ipv6/conf/all/disable_ipv6": "1",
    "ipv4/tcp_retries2": "255",
}

# The threads only sleep. The default stack of 8 MiB each would count against ``ulimit -v``.
_STACK_BYTES = 128 << 10

_CONTROL_GROUPS = "/sys/fs/cgroup"
_libc = ctypes.CDLL(None, use_errno=True)

# The threads sleep by waiting for this lock, which is never released.
_never_released = _thread.allocate_lock()


def main(names: list[str]) -> int:
    """Start one thread for each host, print the ids of the threads, and wait.

    The kernel ends the threads with this process.

    Args:
        names: Host name of each host, which its UTS namespace gets.
    """
    # The mount namespaces of the hosts are copies of this program's. Whatever is hidden here, once,
    # is hidden in all of them.
    if _libc.unshare(CLONE_NEWNS) != 0:
        return _report_refusal(ctypes.get_errno())
    _uncover_interfaces()
    try:
        host_view.hide_machine()
        host_view.hide_open_vswitch()
    except OSError as error:
        return _report_refusal(error.errno or errno.EPERM)
    _never_released.acquire()
    _thread.stack_size(_STACK_BYTES)
    ready, report = os.pipe()
    holders = [0] * len(names)
    for number, name in enumerate(names):
        try:
            _thread.start_new_thread(_hold, (holders, number, report, name))
        except RuntimeError:
            # The limit on threads is reached.
            return _report_refusal(errno.EAGAIN)
        # Wait for each thread before the next is started. Hundreds of them would spin on a lock of
        # the kernel's that admits one at a time.
        answer = os.read(ready, 1)
        if answer != b"+":
            return _report_refusal(answer[0])
    print("\n".join(map(str, holders)), flush=True)
    sys.stdin.read()
    return 0


def _report_refusal(code: int) -> int:
    """Print the errno that the kernel gave, for ``HostNamespaces.wait``."""
    print(f"refused {code}", flush=True)
    return 3


def _uncover_interfaces() -> None:
    """Unmount the sandbox's /sys, which is mounted over the machine's.

    Each host mounts a /sys of its own. The mounts below would be copied for each host.
    """
    with open("/proc/self/mountinfo") as file:
        mount_points = [line.split()[4] for line in file]
    if mount_points.count("/sys") > 1:
        _libc.umount2(b"/sys", MNT_DETACH)


def show_own_interfaces() -> None:
    """Mount /sys again, because it shows the interfaces of the network in which it was mounted.

    The control groups in it are retained. /sys stays as it was if the kernel refuses, as in a
    container that hides a part of it.
    """
    # Opened before the mount covers it.
    groups = None
    if os.path.isdir(_CONTROL_GROUPS):  # noqa: PTH112 - pathlib takes time
        groups = os.open(_CONTROL_GROUPS, os.O_PATH)
    flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
    mounted = _libc.mount(b"sysfs", b"/sys", b"sysfs", ctypes.c_ulong(flags), None) == 0
    if groups is not None:
        if mounted:
            source = f"/proc/thread-self/fd/{groups}".encode()
            bind = ctypes.c_ulong(MS_BIND | MS_REC)
            _libc.mount(source, _CONTROL_GROUPS.encode(), None, bind, None)
        os.close(groups)


def _hold(holders: list[int], number: int, report: int, name: str) -> None:
    """Create the namespaces of one host, and sleep.

    Args:
        holders: Thread ids by host, of which this thread sets its own.
        number: Index of the host.
        report: Pipe to which one byte is written: ``+``, or the errno of a refusal.
        name: Host name of the host.
    """
    if _libc.unshare(CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS) != 0:
        os.write(report, bytes([ctypes.get_errno()]))
        return
    socket.sethostname(name)
    show_own_interfaces()
    for path, value in SETTINGS.items():
        try:
            with open(f"/proc/sys/net/{path}", "w") as file:
                file.write(value)
        except OSError:
            # A kernel without IPv6 has no such settings, and needs none.
            continue
    holders[number] = _thread.get_native_id()
    os.write(report, b"+")
    _never_released.acquire()


if __name__ == "__main__":
    # ``sys.exit`` would wait for the threads.
    os._exit(main(sys.argv[1:]))
