"""A disk with a fixed write rate: a file system on a loop device that the kernel throttles.

This needs root outside any user namespace, loop devices, and the blkio controller of control groups
(version 1).
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

# The mount point of the blkio controller, and its file of write rates.
_BLKIO = Path("/sys/fs/cgroup/blkio")
_THROTTLE = "blkio.throttle.write_bps_device"
# How long a control group may be occupied by a child that is ending.
_LEAVE_S = 10.0
# An empty control group that is older than this belongs to no running program.
_STALE_S = 60.0


@contextmanager
def paced_disk(mount_point: Path, size_bytes: int, bytes_per_s: float | None) -> Iterator[None]:
    """Mount a throttled disk for the duration of the block.

    Each write goes to the device at once. This process and the children that it starts later write
    at the given rate. The caller must be inside the sandbox, which has its own mounts.

    Args:
        mount_point: An empty directory.
        size_bytes: The size of the disk.
        bytes_per_s: The write rate. None: not throttled.

    Raises:
        CapabilityError: The machine cannot do this. The error contains the machine's own message.
    """
    with ExitStack() as stack:
        image = mount_point.with_name(mount_point.name + ".image")
        with image.open("wb") as file:
            file.truncate(size_bytes)
        stack.callback(image.unlink)
        _run("mkfs.ext4", "-q", "-O", "^has_journal", str(image))
        device = _run("losetup", "-f", "--show", str(image)).strip()
        stack.callback(_run, "losetup", "-d", device)
        _run("mount", "-o", "sync", device, str(mount_point))
        stack.callback(_run, "umount", str(mount_point))
        if bytes_per_s is not None:
            _throttle(stack, device, bytes_per_s)
        yield


def _throttle(stack: ExitStack, device: str, bytes_per_s: float) -> None:
    """Move this process into a new control group that is throttled on the device."""
    # The sandbox mounts the controller read-only.
    _run("mount", "-o", "remount,bind,rw", str(_BLKIO))
    _sweep()
    # Process ids are not unique: two sandboxes at the same time may have equal ones.
    group = _BLKIO / f"testbed-{secrets.token_hex(4)}"
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
    """Move all processes of a control group to another one, and remove the group.

    A child that is ending still occupies the group for a moment (EBUSY).
    """
    deadline_s = time.monotonic() + _LEAVE_S
    while True:
        for process in (group / "cgroup.procs").read_text().split():
            # The process may have ended meanwhile.
            with suppress(OSError):
                (home / "cgroup.procs").write_text(f"{process}\n")
        try:
            group.rmdir()
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline_s:
                raise
        time.sleep(0.01)


def _sweep() -> None:
    """Remove the empty groups of runs that were killed."""
    for group in _BLKIO.glob("testbed-*"):
        # Another run may remove the group first. A group with processes cannot be removed.
        with suppress(OSError):
            if time.time() - group.stat().st_mtime > _STALE_S:
                group.rmdir()


def _group_of_this_process() -> Path:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "blkio" in controllers.split(","):
            return _BLKIO / path.lstrip("/")
    raise CapabilityError(
        "a disk cannot be paced here: no blkio controller in /proc/self/cgroup (control groups"
        " version 1)"
    )


def _run(*argv: str) -> str:
    """Run a program and return its output; CapabilityError if it fails."""
    try:
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise CapabilityError(f"a disk cannot be paced here: there is no {argv[0]}") from None
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or [f"exit code {error.returncode}"]
        raise CapabilityError(f"a disk cannot be paced here: {argv[0]}: {lines[-1]}") from None
