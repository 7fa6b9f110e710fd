"""One listener serves a folder and all that is in it: its root is locked for it alone, and the folders around the root
against listeners that would serve them."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def lock_root(root: Path) -> list[int]:
    """Descriptors of the root and of the folders around it, each locked. Raises `OSError` where another listener serves
    one of them, or a folder in the root."""
    files = [os.open(root, FOLDER)]
    try:
        _lock(files[0], fcntl.LOCK_EX, f"{root}")
        for folder in root.resolve().parents:
            with suppress(PermissionError):
                files.append(os.open(folder, FOLDER))
                _lock(files[-1], fcntl.LOCK_SH, f"{folder}, around {root},")
    except OSError:
        unlock_root(files)
        raise
    return files


def unlock_root(files: list[int]) -> None:
    """Close the folders, for another listener to serve."""
    for file in files:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_UN)  # a child of fork may hold the descriptor still
        os.close(file)


def _lock(file: int, way: int, name: str) -> None:
    try:
        fcntl.flock(file, way | fcntl.LOCK_NB)
    except BlockingIOError:
        kind, process = _holder(file)
        inner = "a folder in " if kind == "READ" else ""
        raise FileExistsError(
            f"{inner}{name} is served by another listener{process}: end it, or give another root"
        ) from None
    except OSError:  # a file system without locks: nobody can be distinguished there
        pass


def _holder(file: int) -> tuple[str, str]:
    """How a folder is locked (WRITE, READ), and by which process, in brackets; "" where the kernel does not say."""
    with suppress(OSError):
        inode = str(os.fstat(file).st_ino)
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if words[1] == "FLOCK" and words[5].rpartition(":")[2] == inode:
                return words[3], f" (process {words[4]})"
    return "", ""
