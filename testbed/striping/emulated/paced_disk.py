"""A disk that writes at a given rate: a file system of its own on a loop device that the kernel's block layer
throttles.

Needs root outside any user namespace, loop devices and the blkio controller of control groups (version 1).
"""

import errno
import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from testbed.errors import CapabilityError

_BLKIO = Path("/sys/fs/cgroup/blkio")
_THROTTLE = "blkio.throttle.write_bps_device"
_LEAVE_S = 10.0
_STALE_S = 60.0


@contextmanager
def paced_disk(place: Path, size_bytes: int, bytes_per_s: float | None) -> Iterator[None]:
    """Mounted at ``place`` (an empty directory) for the time of the block; every write goes to the device at once.

    This process and its later children write to it at ``bytes_per_s`` (None: as fast as it goes). Must be entered
    inside the sandbox, whose mounts are its own. Raises CapabilityError, with the machine's own words, where that
    cannot be had.
    """
    with ExitStack() as stack:
        image = place.with_name(place.name + ".image")
        with image.open("wb") as file:
            file.truncate(size_bytes)
        stack.callback(image.unlink)
        _run("mkfs.ext4", "-q", "-O", "^has_journal", str(image))
        device = _run("losetup", "-f", "--show", str(image)).strip()
        stack.callback(_run, "losetup", "-d", device)
        _run("mount", "-o", "sync", device, str(place))
        stack.callback(_run, "umount", str(place))
        if bytes_per_s is not None:
            _throttle(stack, device, bytes_per_s)
        yield


def _throttle(stack: ExitStack, device: str, bytes_per_s: float) -> None:
    _run("mount", "-o", "remount,bind,rw", str(_BLKIO))  # the sandbox can only read it
    _sweep()
    group = (
        _BLKIO / f"testbed-{secrets.token_hex(4)}"
    )  # process numbers are equal in two sandboxes at once
    number = Path("/sys/block", Path(device).name, "dev").read_text().strip()
    before = _group_of_this_process()
    try:
        group.mkdir()
        stack.callback(_leave, group, before)
        (group / _THROTTLE).write_text(f"{number} {int(bytes_per_s)}\n")
        (group / "cgroup.procs").write_text(f"{os.getpid()}\n")
    except OSError as error:
        raise CapabilityError(
            f"a disk cannot be paced here: {error.filename}: {error.strerror}"
        ) from None


def _leave(group: Path, home: Path) -> None:
    """Everything in ``group`` goes back to ``home``, and the group goes: a child that is ending keeps it for a moment
    (EBUSY)."""
    deadline = time.monotonic() + _LEAVE_S
    while True:
        for process in (group / "cgroup.procs").read_text().split():
            with suppress(OSError):  # it has ended since
                (home / "cgroup.procs").write_text(f"{process}\n")
        try:
            return group.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def _sweep() -> None:
    """Remove the empty groups of runs that were killed."""
    for group in _BLKIO.glob("testbed-*"):
        with suppress(OSError):
            if time.time() - group.stat().st_mtime > _STALE_S:
                group.rmdir()


def _group_of_this_process() -> Path:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "blkio" in controllers.split(","):
            return _BLKIO / path.lstrip("/")
    raise CapabilityError(
        "a disk cannot be paced here: no blkio controller in /proc/self/cgroup (control groups version 1)"
    )


def _run(*words: str) -> str:
    try:
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise CapabilityError(f"a disk cannot be paced here: there is no {words[0]}") from None
    except subprocess.CalledProcessError as error:
        why = (error.stderr.strip().splitlines() or [f"exit code {error.returncode}"])[-1]
        raise CapabilityError(f"a disk cannot be paced here: {words[0]}: {why}") from None
