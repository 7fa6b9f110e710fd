"""An almost empty file system, in which a program that is not trusted finds a folder and Python.

``change_root`` is called in a sandbox's mount namespace.
The program then sees no home, no /tmp, /var, /run and no terminal, and so no socket and no FIFO of its user's.
"""

import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

from testbed.emulation.sandbox.sandbox_entry import (
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_REC,
    PRIVATE_MOUNT,
    RefusedError,
    mount,
)

#: Folders in which programs find their libraries.
_SYSTEM = ("/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr")
#: Files that the C library and Python read.
_SYSTEM_FILES = (
    "/etc/group",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
)
_DEVICES = ("null", "zero", "full", "random", "urandom")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
#: Everything that the program writes together.
_WRITABLE_BYTES = 64 << 20
_WRITABLE_FILES = 10_000
#: Files of a folder that are mounted one by one where the kernel has no overlay for it.
MAX_MOUNTED_FILES = 1000

_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYS_MOUNT_SETATTR = 442
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_READ_ONLY = 1 | 2 | 4  # MOUNT_ATTR_RDONLY, NOSUID, NODEV
_MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


def change_root(folder: str, readable: Iterable[str]) -> None:
    """Make an almost empty file system this process's root, and ``folder`` its current directory.

    The current directory stays if it exists there.
    What is written into the folder, or a readable one, is in memory and goes with the process.

    Args:
        folder: The absolute path of the program's folder.
        readable: Absolute paths that the program needs too.

    Raises:
        RefusedError: The kernel refused a step.
    """
    current = Path.cwd()
    writable = f"{PRIVATE_MOUNT}/testbed/bare"
    Path(writable).mkdir()
    mount(
        "tmpfs",
        writable,
        "tmpfs",
        MS_NOSUID | MS_NODEV | MS_NOEXEC,
        "mount a tmpfs for a program",
        f"mode=755,size={_WRITABLE_BYTES},nr_inodes={_WRITABLE_FILES}",
    )
    root = f"{writable}/root"
    Path(root).mkdir()
    mount(root, root, None, MS_BIND, "bind the program's root")
    for path in (*_SYSTEM, *_SYSTEM_FILES):
        _show_system_path(path, root)
    layers = _Layers(writable, root)
    # A folder comes before what it contains, which it would hide otherwise.
    for path in sorted({*readable, folder}):
        layers.show(path, required=path == folder)
    _make_devices(root)
    Path(f"{root}/tmp").mkdir(parents=True, exist_ok=True)
    Path(f"{root}/proc").mkdir(parents=True, exist_ok=True)
    mount("/proc", f"{root}/proc", None, MS_BIND | MS_REC, "bind /proc for a program")
    _pivot(root)
    try:
        os.chdir(current)
    except OSError:
        os.chdir(folder)


def python_paths() -> set[str]:
    """Return the folders from which this Python and its packages are loaded."""
    prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    paths = {*sys.path, *prefixes, str(Path(sys.executable).resolve().parent)}
    for name, module in list(sys.modules.items()):
        # Packages that are installed in place, by setuptools.
        if name.startswith("__editable__"):
            paths.update(getattr(module, "MAPPING", {}).values())
    paths.update(_library_folders())
    folders = {os.path.realpath(path) for path in paths if Path(path).is_dir()}
    folders |= {path for path in prefixes if Path(path).is_dir()}
    return {path for path in folders if not _is_within(path, "/usr")} - {"/"}


def _library_folders() -> set[str]:
    """Return the folders of the shared libraries that this process has loaded."""
    with open("/proc/self/maps") as file:
        paths = {line.split(maxsplit=5)[-1].strip() for line in file if ".so" in line}
    return {str(Path(path).parent) for path in paths if path.startswith("/")}


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def _show_system_path(path: str, root: str) -> None:
    """Show a path of the system's, if it exists, which can only be read."""
    if Path(path).is_symlink() and path in _SYSTEM:
        Path(root + path).symlink_to(Path(path).readlink())
    elif Path(path).exists():
        _bind(path, root + path)


def _bind(source: str, target: str) -> None:
    """Show a file or folder, with all that is mounted in it, which can only be read."""
    if Path(source).is_dir():
        Path(target).mkdir(parents=True, exist_ok=True)
    else:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        with open(target, "a"):
            pass
    mount(source, target, None, MS_BIND | MS_REC, f"bind {source}")
    _make_read_only(target)


def _make_read_only(target: str) -> None:
    attributes = struct.pack("QQQQ", _READ_ONLY, 0, 0, 0)
    arguments = (_AT_FDCWD, os.fsencode(target), _AT_RECURSIVE, attributes, len(attributes))
    if _libc.syscall(_SYS_MOUNT_SETATTR, *arguments) != 0:
        raise RefusedError(
            f"cannot make {target} read-only ({os.strerror(ctypes.get_errno())}); "
            "the sandbox of a Python file needs Linux 5.12 or later"
        )


class _Layers:
    """Shows folders below a root, each under a writable layer in memory."""

    def __init__(self, writable: str, root: str) -> None:
        self._writable = writable
        self._root = root
        self._count = 0

    def show(self, folder: str, *, required: bool) -> None:
        """Show a folder by an overlay, which has no connection to its sockets and FIFOs.

        Where the kernel refuses an overlay, a required folder is mirrored file by file, and any
        other can only be read.
        """
        target = self._root + folder
        Path(target).mkdir(parents=True, exist_ok=True)
        if self._overlay(folder, target):
            return
        if required:
            mirror(folder, target)
        else:
            _bind(folder, target)

    def _overlay(self, folder: str, target: str) -> bool:
        """Mount an overlay of the folder, and return whether the kernel did."""
        self._count += 1
        upper = f"{self._writable}/upper{self._count}"
        work = f"{self._writable}/work{self._count}"
        Path(upper).mkdir()
        Path(work).mkdir()
        Path(upper).chmod(stat.S_IMODE(Path(folder).stat().st_mode))
        # The folder's own path could contain characters that separate options.
        lower = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        options = f"lowerdir=/proc/self/fd/{lower},upperdir={upper},workdir={work}"
        flags = MS_NOSUID | MS_NODEV
        try:
            # An ordinary user's overlay keeps its notes in attributes that this user may write.
            for more in ("", ",userxattr"):
                try:
                    mount("overlay", target, "overlay", flags, "mount an overlay", options + more)
                except RefusedError:
                    continue
                return True
        finally:
            os.close(lower)
        return False


def mirror(folder: str, target: str) -> None:
    """Show the plain files, folders and links of a folder in another, but no sockets and FIFOs.

    Raises:
        RefusedError: The folder contains more files than can be mounted one by one.
    """
    count = 0
    for parent, folders, files in os.walk(folder):
        below = target + parent.removeprefix(folder)
        for name in (*folders, *files):
            source = f"{parent}/{name}"
            mode = Path(source).lstat().st_mode
            count += 1
            if count > MAX_MOUNTED_FILES:
                raise RefusedError(
                    f"the kernel has no overlay for {folder}, which contains more than "
                    f"{MAX_MOUNTED_FILES} files; put the file into a folder of its own"
                )
            if stat.S_ISLNK(mode):
                Path(below, name).symlink_to(Path(source).readlink())
            elif stat.S_ISDIR(mode):
                Path(f"{below}/{name}").mkdir(parents=True, exist_ok=True)
            elif stat.S_ISREG(mode):
                _bind(source, f"{below}/{name}")


def _make_devices(root: str) -> None:
    Path(f"{root}/dev/shm").mkdir(parents=True, exist_ok=True)
    for name in _DEVICES:
        path = f"{root}/dev/{name}"
        with open(path, "w"):
            pass
        mount(f"/dev/{name}", path, None, MS_BIND, f"bind /dev/{name}")
    for name, seen in _DEVICE_LINKS.items():
        Path(f"{root}/dev/{name}").symlink_to(seen)


def _pivot(root: str) -> None:
    """Make the directory the root of this mount namespace, and let go of the former one."""
    os.chdir(root)
    number = _SYS_PIVOT_ROOT[os.uname().machine]
    # The former root is mounted over the new one for a moment, so that it needs no folder.
    if _libc.syscall(number, b".", b".") != 0 or _libc.umount2(b".", _MNT_DETACH) != 0:
        raise RefusedError(
            f"cannot change the root of the sandbox ({os.strerror(ctypes.get_errno())})"
        )
    os.chdir("/")
