"""Holds emulated hosts' namespaces (network, host name, mounts): a stand-alone program, one sleeping thread a host.

``host_namespaces`` runs it with ``python -I -S``; it prints the threads' ids, one a line, and lives until its input
closes. A thread's namespaces are entered as a process' are, by /proc/ID/ns; a thread needs some 30 kB where a process
of this program needs 600.

    namespace_holder.py HOSTNAME ...
"""

import _thread
import ctypes
import errno
import os
import socket
import sys

# ``python -I`` leaves the program's folder out.
sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120 - pathlib takes time
import host_view  # type: ignore[import-not-found] # it lies beside this program

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWNET = 0x00020000, 0x04000000, 0x40000000
MNT_DETACH = 2
MS_BIND, MS_REC, READ_ONLY = (
    4096,
    16384,
    1 | 2 | 4 | 8,
)  # without devices, programs and their rights
SETTINGS = {
    "ipv6/conf/default/disable_ipv6": "1", "ipv6/conf/all/disable_ipv6": "1", "ipv4/tcp_retries2": "255",
}  # fmt: skip
"""Of each host's network. A host's own queue stands for its cable's and drops; the kernel takes that for congestion of
its own, tries twice a second, and ends a connection after ``tcp_retries2`` drops in a row: 15 would be 7.5 s."""
_STACK_BYTES = 128 << 10
_libc = ctypes.CDLL(None, use_errno=True)
_for_ever = _thread.allocate_lock()


def main(names: list[str]) -> int:
    """One thread a host, whose UTS namespace has that name. Print the threads' ids and wait; the kernel ends them with
    this process."""
    # The hosts' mount namespaces are copies of this program's own.
    if _libc.unshare(CLONE_NEWNS) != 0:
        return _refuse(ctypes.get_errno())
    _uncover_interfaces()
    try:
        host_view.hide_machine()
        host_view.hide_open_vswitch()
    except OSError as error:
        return _refuse(error.errno or errno.EPERM)
    _for_ever.acquire()
    _thread.stack_size(_STACK_BYTES)
    ready, report = os.pipe()
    holders = [0] * len(names)
    for number, name in enumerate(names):
        try:
            _thread.start_new_thread(_hold, (holders, number, report, name))
        except RuntimeError:  # no more threads
            return _refuse(errno.EAGAIN)
        # One after the other: hundreds at once turn round a lock of the kernel's that lets one through.
        answer = os.read(ready, 1)
        if answer != b"+":
            return _refuse(answer[0])
    print("\n".join(map(str, holders)), flush=True)
    sys.stdin.read()
    return 0


def _refuse(code: int) -> int:
    print(f"refused {code}", flush=True)
    return 3


def _uncover_interfaces() -> None:
    """Take away the /sys of the sandbox's network, which lies over the machine's.

    Each host mounts its own, and each mount below would be copied for each host.
    """
    with open("/proc/self/mountinfo") as file:
        points = [line.split()[4] for line in file]
    if points.count("/sys") > 1:
        _libc.umount2(b"/sys", MNT_DETACH)


def show_own_interfaces() -> None:
    """/sys shows the interfaces of the network in which it was mounted: mount it again, with the control groups that
    lie in it. It stays as it was where the kernel refuses (in a container that hides a part of it)."""
    groups = "/sys/fs/cgroup"
    retained = os.open(groups, os.O_PATH) if os.path.isdir(groups) else None  # noqa: PTH112 - pathlib takes time
    if (
        _libc.mount(b"sysfs", b"/sys", b"sysfs", ctypes.c_ulong(READ_ONLY), None) == 0
        and retained is not None
    ):
        seen = f"/proc/thread-self/fd/{retained}"
        _libc.mount(seen.encode(), groups.encode(), None, ctypes.c_ulong(MS_BIND | MS_REC), None)
    if retained is not None:
        os.close(retained)


def _hold(holders: list[int], number: int, report: int, name: str) -> None:
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
            continue  # a kernel without IPv6 has nothing to switch off
    holders[number] = _thread.get_native_id()
    os.write(report, b"+")
    _for_ever.acquire()


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # without waiting for the threads
