"""Hides files of the machine from programs in hosts and at switches.

These are the sockets of services in /run, devices and terminals in /dev, and the run's Open
vSwitch. ``namespace_holder`` imports the module. The module is also the program that runs another
one next to a switch:

    host_view.py HOSTNAME PROGRAM ARGUMENT...

It imports only the standard library, because it is started by ``python -I -S``.
"""

import ctypes
import os
import socket
import sys
from contextlib import suppress

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_BIND = 4096
MS_REC = 16384

#: Devices that programs in hosts find in /dev, if the machine has them.
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "net/tun")

# Symbolic links in /dev, and where they lead.
_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
_RESOLVER = "/etc/resolv.conf"
_libc = ctypes.CDLL(None, use_errno=True)


def hide_machine() -> None:
    """Hide /run and most of /dev in this mount namespace.

    Raises:
        OSError: A mount fails.
    """
    for directory in ("/run", "/var/run"):
        if os.path.isdir(directory) and not os.path.islink(directory):  # noqa: PTH112, PTH114
            _hide_services(directory)
    _hide_devices()


def hide_open_vswitch() -> None:
    """Hide the sandbox's private directory, except its directory for temporary files.

    Raises:
        OSError: A mount fails.
    """
    directory = os.environ.get("TESTBED_SANDBOX", "")
    if not directory:
        return
    # Opened before the mount covers it.
    temporary = os.open(f"{directory}/tmp", os.O_PATH)
    _mount("tmpfs", directory, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
    os.mkdir(f"{directory}/tmp")  # noqa: PTH102 - pathlib costs a third of this program's start
    _bind(temporary, f"{directory}/tmp")


def _hide_services(directory: str) -> None:
    """Mount a file system over a directory, with the same folders and links, but without files.

    Programs such as sshd need folders there. The resolver's file is copied if it is there too.
    """
    folders: list[tuple[str, os.stat_result]] = []
    links: list[tuple[str, str]] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_symlink():
                links.append((entry.path, os.readlink(entry.path)))  # noqa: PTH115
            elif entry.is_dir():
                folders.append((entry.path, entry.stat()))
    resolver = os.path.realpath(_RESOLVER)
    resolver_text = ""
    if resolver.startswith(f"{directory}/"):
        # A machine without name servers may have no such file.
        with suppress(OSError), open(resolver) as file:
            resolver_text = file.read()
    _mount("tmpfs", directory, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=16m")
    for path, status in folders:
        os.mkdir(path)  # noqa: PTH102
        # In the user namespace of an ordinary user, other users do not exist.
        with suppress(OSError):
            os.chown(path, status.st_uid, status.st_gid)
        os.chmod(path, status.st_mode & 0o7777)  # noqa: PTH101
    for path, target in links:
        os.symlink(target, path)  # noqa: PTH211
    if resolver_text:
        os.makedirs(os.path.dirname(resolver), exist_ok=True)  # noqa: PTH103, PTH120
        with open(resolver, "w") as file:
            file.write(resolver_text)


def _hide_devices() -> None:
    """Mount a /dev that has only ``DEVICES``, and the sandbox's terminals and shared memory."""
    # Everything that shall stay visible is opened before the mount covers it.
    devices = {}
    for name in DEVICES:
        # The machine may lack a device.
        with suppress(OSError):
            devices[name] = os.open(f"/dev/{name}", os.O_PATH)
    directories = {name: os.open(f"/dev/{name}", os.O_PATH) for name in ("pts", "shm")}
    _mount("tmpfs", "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k")
    os.mkdir("/dev/net")  # noqa: PTH102
    for name, device in devices.items():
        # A bind mount of a device needs a file as its mount point.
        with open(f"/dev/{name}", "w"):
            pass
        _bind(device, f"/dev/{name}")
    for name, directory in directories.items():
        os.mkdir(f"/dev/{name}")  # noqa: PTH102
        _bind(directory, f"/dev/{name}")
    for name, target in _LINKS.items():
        os.symlink(target, f"/dev/{name}")  # noqa: PTH211


def _bind(descriptor: int, target: str) -> None:
    """Bind-mount an open file or directory, with all mounts below it, and close it."""
    _mount(f"/proc/self/fd/{descriptor}", target, None, MS_BIND | MS_REC)
    os.close(descriptor)


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    encoded_kind = None if kind is None else kind.encode()
    result = _libc.mount(
        source.encode(),
        os.fsencode(target),
        encoded_kind,
        ctypes.c_ulong(flags),
        options.encode(),
    )
    if result != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}")


def main(hostname: str, argv: list[str]) -> int:
    """Become the program, with this host name and without the hidden files.

    Returns:
        Exit code 126 if the machine's files cannot be hidden, and 127 if the program cannot be
        started, as a shell would.
    """
    if _libc.unshare(CLONE_NEWUTS | CLONE_NEWNS) != 0:
        print(f"testbed: unshare: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
        return 126
    socket.sethostname(hostname)
    try:
        hide_machine()
    except OSError as error:
        print(f"testbed: {error.filename or error.strerror}: {error}", file=sys.stderr)
        return 126
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr)
    return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
