"""Whether a schedule is one: every transfer in exactly one frame, no link twice in a frame. Imports no scheduler."""

from collections.abc import Sequence

import numpy as np

from testbed.errors import InputError, require_type
from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic
from topologies.errors import python_number


def check_schedule(traffic: Traffic, schedule: Schedule) -> None:
    """Raises InputError naming the transfer that is missing, or the two that collide and their link.

    One count over all (frame, link) pairs: a tenth of a second for six million of them.
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
    used = np.bincount(frame_of, minlength=schedule.length)
    if not used.all():
        raise InputError(f"frame {int(used.argmin())} is empty")
    lengths = np.diff(traffic.offsets)
    slots = np.repeat(frame_of.astype(np.int64) * len(traffic.links), lengths) + traffic.indices
    places = schedule.length * len(traffic.links)
    if places <= 4 * slots.size + 1024 and np.bincount(slots, minlength=1).max() == 1:
        return
    order = np.argsort(slots, kind="stable")
    same = np.flatnonzero(slots[order][1:] == slots[order][:-1])
    if same.size:
        users = np.repeat(np.arange(len(traffic), dtype=np.int64), lengths)
        a, b = (int(users[order[same[0] + k]]) for k in (0, 1))
        link = traffic.links[int(traffic.indices[order[same[0]]])]
        raise InputError(f"transfers {a} and {b} both use link {link} in frame {int(frame_of[a])}")


def is_schedule(traffic: Traffic, schedule: Schedule) -> bool:
    """Whether the schedule is one of the traffic."""
    try:
        check_schedule(traffic, schedule)
    except InputError:
        return False
    return True


def check_frames(traffic: Traffic, frames: Sequence[Sequence[int]]) -> None:
    """Check frames as they stand in a file (transfer numbers, frame by frame): whole, none twice, no link twice in a
    frame.

    Raises InputError naming the first transfer that is missing or there twice, or the two that collide.
    """
    seen = np.full(len(traffic), -1, dtype=np.int32)
    for number, frame in enumerate(frames):
        if not frame:
            raise InputError(f"frame {number} is empty; leave it out")
        for transfer in map(python_number, frame):
            if (
                isinstance(transfer, bool)
                or not isinstance(transfer, int)
                or not 0 <= transfer < len(traffic)
            ):
                raise InputError(
                    f"frame {number}: {transfer!r} is no transfer; they are numbered 0 to {len(traffic) - 1}"
                )
            if seen[transfer] >= 0:
                raise InputError(
                    f"transfer {transfer} is in frames {int(seen[transfer])} and {number}; keep one"
                )
            seen[transfer] = number
    missing = np.flatnonzero(seen < 0)
    if missing.size:
        raise InputError(
            f"transfer {int(missing[0])} is in no frame ({missing.size} of {len(traffic)} are missing)"
        )
    check_schedule(traffic, Schedule.of(seen, traffic.bottleneck_load, method="file"))
