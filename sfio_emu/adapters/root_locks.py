"""Locks by which one listener serves a folder and everything in it.

The root of a listener is locked exclusively. The folders around it get shared locks, so that no
listener can serve them.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

# The flags of open(2) for a folder that is locked.
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def lock_root(root: Path) -> list[int]:
    """Lock a root directory and the folders around it.

    Returns:
        The descriptors of the folders, the root first.

    Raises:
        OSError: Another listener serves one of these folders, or a folder in the root.
    """
    files = [os.open(root, FOLDER)]
    try:
        _lock(files[0], fcntl.LOCK_EX, f"{root}")
        for folder in root.resolve().parents:
            # A folder that this user may not read is not locked.
            with suppress(PermissionError):
                files.append(os.open(folder, FOLDER))
                _lock(files[-1], fcntl.LOCK_SH, f"{folder}, around {root},")
    except OSError:
        unlock_root(files)
        raise
    return files


def unlock_root(files: list[int]) -> None:
    """Unlock and close the folders, so that another listener can serve them."""
    for file in files:
        # Closing does not unlock a folder if a child of fork still has the descriptor.
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)


def _lock(file: int, operation: int, name: str) -> None:
    """Lock a folder.

    Args:
        file: The descriptor of the folder.
        operation: LOCK_EX or LOCK_SH of flock(2).
        name: The folder, for the error.

    Raises:
        FileExistsError: Another listener has locked it.
    """
    try:
        fcntl.flock(file, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        kind, process = _holder(file)
        inner = "a folder in " if kind == "READ" else ""
        raise FileExistsError(
            f"{inner}{name} is served by another listener{process}: end it, or give another root"
        ) from None
    except OSError:
        # The file system has no locks. Other listeners cannot be detected there.
        pass


def _holder(file: int) -> tuple[str, str]:
    """Return how a folder is locked, and by which process.

    Returns:
        "WRITE" or "READ", and the process in brackets; both are empty if the kernel does not tell.
    """
    with suppress(OSError):
        inode = str(os.fstat(file).st_ino)
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == inode:
                return fields[3], f" (process {fields[4]})"
    return "", ""
