"""The check that a schedule is valid.

Every transfer must be in exactly one frame, and no link may be used twice in a frame. The module
imports no scheduler.
"""

from collections.abc import Sequence

import numpy as np

from testbed.errors import InputError, require_type
from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic
from topologies.errors import python_number


def check_schedule(traffic: Traffic, schedule: Schedule) -> None:
    """Check a schedule of a traffic.

    All pairs of frame and link are counted at once: six million take a tenth of a second.

    Raises:
        InputError: The schedule is invalid. The message names the transfer whose frame does not
            exist, the empty frame, or two transfers that use the same link and this link.
    """
    require_type(
        traffic, Traffic, "traffic", "a Traffic; Traffic.from_transfers makes one of lists"
    )
    require_type(schedule, Schedule, "schedule", "a Schedule; check_frames takes lists")
    frame_of = np.asarray(schedule.frame_of)
    if frame_of.shape != (len(traffic),):
        raise InputError(f"schedule of {frame_of.size} transfers for a traffic of {len(traffic)}")
    if frame_of.min() < 0 or frame_of.max() >= schedule.length:
        outside = int(((frame_of < 0) | (frame_of >= schedule.length)).argmax())
        raise InputError(
            f"transfer {outside} is in frame {int(frame_of[outside])}, there are {schedule.length}"
        )
    transfers_in_frame = np.bincount(frame_of, minlength=schedule.length)
    if not transfers_in_frame.all():
        raise InputError(f"frame {int(transfers_in_frame.argmin())} is empty")
    # One number for each use of a link in a frame.
    lengths = np.diff(traffic.offsets)
    slots = np.repeat(frame_of.astype(np.int64) * len(traffic.links), lengths) + traffic.indices
    # Counting is faster than sorting, but needs memory for all slots, used or not.
    all_slots = schedule.length * len(traffic.links)
    if all_slots <= 4 * slots.size + 1024 and np.bincount(slots, minlength=1).max() == 1:
        return
    order = np.argsort(slots, kind="stable")
    collisions = np.flatnonzero(slots[order][1:] == slots[order][:-1])
    if collisions.size:
        users = np.repeat(np.arange(len(traffic), dtype=np.int64), lengths)
        first_use = order[collisions[0]]
        second_use = order[collisions[0] + 1]
        first = int(users[first_use])
        link = traffic.links[int(traffic.indices[first_use])]
        raise InputError(
            f"transfers {first} and {int(users[second_use])} both use link {link} in frame "
            f"{int(frame_of[first])}"
        )


def is_schedule(traffic: Traffic, schedule: Schedule) -> bool:
    """Return whether the schedule is a valid one of the traffic."""
    try:
        check_schedule(traffic, schedule)
    except InputError:
        return False
    return True


def check_frames(traffic: Traffic, frames: Sequence[Sequence[int]]) -> None:
    """Check the frames of a file.

    Args:
        traffic: The traffic.
        frames: The numbers of the transfers of each frame.

    Raises:
        InputError: The frames are no valid schedule. The message names the first transfer that is
            missing or listed twice, or the two that share a link.
    """
    frame_of = np.full(len(traffic), -1, dtype=np.int32)
    for number, frame in enumerate(frames):
        if not frame:
            raise InputError(f"frame {number} is empty; leave it out")
        for value in frame:
            transfer = _transfer_number(traffic, value, number)
            if frame_of[transfer] >= 0:
                raise InputError(
                    f"transfer {transfer} is in frames {int(frame_of[transfer])} and {number}; "
                    "keep one"
                )
            frame_of[transfer] = number
    missing = np.flatnonzero(frame_of < 0)
    if missing.size:
        raise InputError(
            f"transfer {int(missing[0])} is in no frame ({missing.size} of {len(traffic)} are "
            "missing)"
        )
    check_schedule(traffic, Schedule.of(frame_of, traffic.bottleneck_load, method="file"))


def _transfer_number(traffic: Traffic, value: object, frame: int) -> int:
    """Return the value as the number of a transfer, or raise InputError naming the frame."""
    transfer = python_number(value)
    if (
        isinstance(transfer, bool)
        or not isinstance(transfer, int)
        or not 0 <= transfer < len(traffic)
    ):
        raise InputError(
            f"frame {frame}: {transfer!r} is not a transfer; give numbers from 0 to "
            f"{len(traffic) - 1}"
        )
    return transfer
