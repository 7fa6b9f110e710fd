"""An almost empty file system for a program that is not trusted, with one folder and Python.

``change_root`` is called in the mount namespace of a sandbox. The program then sees no home
directory, no /tmp, /var and /run, and no terminal. So it finds no socket and no FIFO of its user.
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

# Folders in which programs find their libraries.
_SYSTEM = ("/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr")

# Files that the C library and Python read.
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

# Limits of everything that the program writes, which is in memory.
_WRITABLE_BYTES = 64 << 20
_WRITABLE_FILES = 10_000

#: Largest number of files of a folder that are mounted one by one if the kernel refuses an overlay.
MAX_MOUNTED_FILES = 1000

# Numbers of system calls that the C library does not wrap, and their constants.
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYS_MOUNT_SETATTR = 442
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 1
_MOUNT_ATTR_NOSUID = 2
_MOUNT_ATTR_NODEV = 4
_READ_ONLY = _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV
_MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


def change_root(folder: str, readable: Iterable[str]) -> None:
    """Make an almost empty file system the root of this process.

    The current directory stays if it exists in the new root, and otherwise becomes ``folder``. What
    the program writes into this folder, or into a readable one, is in memory, and is lost with the
    process.

    Args:
        folder: Absolute path of the program's folder.
        readable: Absolute paths of other folders that the program needs.

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
    # The new root must be a mount point (pivot_root(2)).
    root = f"{writable}/root"
    Path(root).mkdir()
    mount(root, root, None, MS_BIND, "bind the program's root")
    for path in (*_SYSTEM, *_SYSTEM_FILES):
        _show_system_path(path, root)
    layers = _Layers(writable, root)
    # Sorted, so that a folder comes before the folders in it, which it would hide otherwise.
    for path in sorted({*readable, folder}):
        layers.show(path, required=path == folder)
    _make_devices(root)
    Path(f"{root}/tmp").mkdir(parents=True, exist_ok=True)
    Path(f"{root}/proc").mkdir(parents=True, exist_ok=True)
    mount("/proc", f"{root}/proc", None, MS_BIND | MS_REC, "bind /proc for a program")
    # This comes last: the old root, from which everything above is mounted, is no longer visible.
    _pivot(root)
    try:
        os.chdir(current)
    except OSError:
        # The directory does not exist in the new root.
        os.chdir(folder)


def python_paths() -> set[str]:
    """Return the folders outside /usr from which this Python and its packages are loaded."""
    prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    paths = {*sys.path, *prefixes, str(Path(sys.executable).resolve().parent)}
    for name, module in list(sys.modules.items()):
        # Packages that setuptools has installed in place ("editable").
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
    """Show a path of the system read-only, if it exists; links such as /bin stay links."""
    if Path(path).is_symlink() and path in _SYSTEM:
        Path(root + path).symlink_to(Path(path).readlink())
    elif Path(path).exists():
        _bind(path, root + path)


def _bind(source: str, target: str) -> None:
    """Show a file or folder, with all mounts in it, read-only."""
    if Path(source).is_dir():
        Path(target).mkdir(parents=True, exist_ok=True)
    else:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        with open(target, "a"):
            pass
    mount(source, target, None, MS_BIND | MS_REC, f"bind {source}")
    _make_read_only(target)


def _make_read_only(target: str) -> None:
    """Make a mount read-only with all mounts in it, which a remount by mount(2) would not."""
    # struct mount_attr: flags to set, flags to clear, propagation, user namespace.
    attributes = struct.pack("QQQQ", _READ_ONLY, 0, 0, 0)
    arguments = (_AT_FDCWD, os.fsencode(target), _AT_RECURSIVE, attributes, len(attributes))
    if _libc.syscall(_SYS_MOUNT_SETATTR, *arguments) != 0:
        raise RefusedError(
            f"cannot make {target} read-only ({os.strerror(ctypes.get_errno())}); "
            "the sandbox of a Python file needs Linux 5.12 or later"
        )


class _Layers:
    """Shows folders in a new root, each under a writable layer in memory.

    Args:
        writable: Directory for the writable layers.
        root: The new root.
    """

    def __init__(self, writable: str, root: str) -> None:
        self._writable = writable
        self._root = root
        self._count = 0

    def show(self, folder: str, *, required: bool) -> None:
        """Show a folder by an overlay, through which its sockets and FIFOs connect to no process.

        If the kernel refuses an overlay, a required folder is mirrored file by file, and any other
        is read-only.

        Args:
            folder: Absolute path of the folder.
            required: The folder contains the program.
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
        """Mount an overlay of a folder, and return whether the kernel did.

        Args:
            folder: The folder, which becomes the lower layer.
            target: The mount point.
        """
        self._count += 1
        upper = f"{self._writable}/upper{self._count}"
        work = f"{self._writable}/work{self._count}"
        Path(upper).mkdir()
        Path(work).mkdir()
        Path(upper).chmod(stat.S_IMODE(Path(folder).stat().st_mode))
        # The path of the folder could contain characters that separate options, so it is given by
        # its descriptor.
        lower = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        options = f"lowerdir=/proc/self/fd/{lower},upperdir={upper},workdir={work}"
        flags = MS_NOSUID | MS_NODEV
        try:
            # An overlay stores information in extended attributes. In a user namespace, it may
            # only write those of users ("userxattr").
            for last_option in ("", ",userxattr"):
                try:
                    mount(
                        "overlay",
                        target,
                        "overlay",
                        flags,
                        "mount an overlay",
                        options + last_option,
                    )
                except RefusedError:
                    continue
                return True
        finally:
            os.close(lower)
        return False


def mirror(folder: str, target: str) -> None:
    """Show the plain files, folders and links of a folder, but no sockets and FIFOs.

    Args:
        folder: The folder.
        target: The folder in which they are shown, each file by a read-only mount.

    Raises:
        RefusedError: The folder contains more files than can be mounted one by one.
    """
    count = 0
    for parent, folders, files in os.walk(folder):
        target_parent = target + parent.removeprefix(folder)
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
                Path(target_parent, name).symlink_to(Path(source).readlink())
            elif stat.S_ISDIR(mode):
                Path(f"{target_parent}/{name}").mkdir(parents=True, exist_ok=True)
            elif stat.S_ISREG(mode):
                _bind(source, f"{target_parent}/{name}")


def _make_devices(root: str) -> None:
    """Create a /dev with harmless devices, and an empty directory for shared memory."""
    Path(f"{root}/dev/shm").mkdir(parents=True, exist_ok=True)
    for name in _DEVICES:
        path = f"{root}/dev/{name}"
        # A bind mount of a device needs a file as its mount point.
        with open(path, "w"):
            pass
        mount(f"/dev/{name}", path, None, MS_BIND, f"bind /dev/{name}")
    for name, link_target in _DEVICE_LINKS.items():
        Path(f"{root}/dev/{name}").symlink_to(link_target)


def _pivot(root: str) -> None:
    """Make a directory the root of this mount namespace, and unmount the former root."""
    os.chdir(root)
    number = _SYS_PIVOT_ROOT[os.uname().machine]
    # With "." for both, the former root is mounted over the new one, so that it needs no folder in
    # it. It must be unmounted, or the program could enter it.
    if _libc.syscall(number, b".", b".") != 0 or _libc.umount2(b".", _MNT_DETACH) != 0:
        raise RefusedError(
            f"cannot change the root of the sandbox ({os.strerror(ctypes.get_errno())})"
        )
    os.chdir("/")
