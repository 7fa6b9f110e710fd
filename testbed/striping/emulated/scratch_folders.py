"""Folders for the subfiles of one run: they go with it, and what a killed run has left behind goes when the next one
begins. The process that uses a folder has locked it (flock): a folder that nobody has locked for a minute is
nobody's."""

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

PREFIX = ".subfiles-"
JUST_MADE_S = 60.0  # a folder this young may be about to be locked


@contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[Path]:
    """A new folder in `parent` (made where it is not there; None: the system's for such), removed afterwards. Before,
    those that killed processes have left in it are removed. InputError where there can be none."""
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
            with suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            yield Path(root)
        finally:
            os.close(lock)


@contextmanager
def _ended_by_exceptions() -> Iterator[None]:
    """Have SIGTERM and SIGHUP, where they would kill this process, leave it by SystemExit; its children they kill."""
    owner = os.getpid()

    def end(number: int, _frame: object) -> None:
        if os.getpid() == owner:
            for one in fatal:
                signal.signal(one, signal.SIG_IGN)  # another must not cut short the clean-up
            raise SystemExit(128 + number)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    fatal = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL
    ]
    if threading.current_thread() is not threading.main_thread():  # which alone hears of signals
        fatal = []
    for number in fatal:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in fatal:
            signal.signal(number, signal.SIG_DFL)


def _remove_abandoned(parent: Path, before_s: float) -> None:
    """Remove the folders in `parent` that were last changed before that time and that no process has locked."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # gone meanwhile, locked, or a file system without locks
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(lock).st_mtime < before_s:
                    shutil.rmtree(folder)
            finally:
                os.close(lock)
