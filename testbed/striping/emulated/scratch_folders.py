"""Folders for the subfiles of one run, which are removed with it.

The folder of a killed run remains. The next run removes it. The process that uses a folder has
locked it (flock), so a folder that no process has locked for a minute is abandoned.
"""

import fcntl
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from testbed.errors import InputError

# The beginning of the names of these folders.
PREFIX = ".subfiles-"
# A folder that is younger than this is not removed, because its process may not have locked it yet.
JUST_MADE_S = 60.0


@contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[Path]:
    """Create a folder for the duration of the block, and remove abandoned ones first.

    Args:
        parent: The directory for the folder. It is created if it does not exist. None: the system's
            directory of temporary files.

    Raises:
        InputError: The folder cannot be created.
    """
    parent = parent or Path(tempfile.gettempdir())
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(parent, time.time() - JUST_MADE_S)
        folder = tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent)
    except OSError as error:
        raise InputError(
            f"--results {parent}: {error.strerror}; choose a directory that can be written"
        ) from None
    with _ended_by_exceptions(), folder as root:
        lock = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Some file systems have no locks.
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            yield Path(root)
        finally:
            os.close(lock)


@contextmanager
def _ended_by_exceptions() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end this process by SystemExit, so that the folder is removed.

    Signals with a handler are unchanged. Forked children are killed as usual.
    """
    owner = os.getpid()

    def end(number: int, _frame: object) -> None:
        if os.getpid() == owner:
            for fatal_signal in fatal:
                # Another signal must not interrupt the clean-up.
                signal.signal(fatal_signal, signal.SIG_IGN)
            raise SystemExit(128 + number)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    fatal = []
    # Only the main thread may set signal handlers.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                fatal.append(number)
    for number in fatal:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in fatal:
            signal.signal(number, signal.SIG_DFL)


def _remove_abandoned(parent: Path, before_s: float) -> None:
    """Remove folders that no process has locked.

    Args:
        parent: The directory of the folders.
        before_s: The time (Unix) before which they were last changed.
    """
    for folder in parent.glob(f"{PREFIX}*"):
        # The folder may have been removed, it may be locked, or the file system has no locks.
        with suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(lock).st_mtime < before_s:
                    shutil.rmtree(folder)
            finally:
                os.close(lock)
