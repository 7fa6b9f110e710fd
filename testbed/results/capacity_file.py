"""The file with the load that this machine can carry, and the link rate that follows from it.

``testbed doctor --calibrate`` measures the load. There is one file for each user, in the cache
directory of the system.
"""

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from testbed.errors import InputError
from testbed.model.json_values import from_json, read_json
from testbed.model.machine.capacity import (
    USUAL_RATE_BPS,
    MachineCapacity,
    busy_links,
    rate_description,
    rate_for,
)


def load_file() -> Path:
    """Return ``$XDG_CACHE_HOME/testbed/carried_load.json``, by default under ~/.cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "testbed" / "carried_load.json"


def load_carried() -> MachineCapacity | None:
    """Return the load that was measured on this machine.

    Returns:
        None if there is no valid measurement, or if the number of processors or the kernel has
        changed.
    """
    try:
        capacity = from_json(MachineCapacity, read_json(load_file()), "carried load")
    except InputError:
        # The machine was not calibrated, or the file is damaged: use the usual rate.
        return None
    if min(capacity.link_bps, capacity.rate_bps) <= 0:
        return None
    if (capacity.processors, capacity.kernel) != this_machine():
        return None
    return capacity


def chosen_rate(
    requested_bps: float | None, paths: Sequence[Sequence[object]], frames: float, fabric: str
) -> tuple[float, str]:
    """Return the link rate of a run in bits per second, and a sentence that explains it.

    Args:
        requested_bps: The rate that the user requested, or None.
        paths: The paths of all transfers, each a sequence of links.
        frames: Duration of all transfers, in units of the time that a message takes on the fastest
            link. If all links have one rate, this is the number of time frames.
        fabric: "emulation" or "simulator".

    Returns:
        If links differ in rate, the rate is that of the fastest link.
    """
    if requested_bps is not None:
        return requested_bps, f"links of {requested_bps / 1e6:g} Mbit/s, as asked"
    if fabric != "emulation":
        return USUAL_RATE_BPS, f"links of {USUAL_RATE_BPS / 1e6:g} Mbit/s, the usual rate"
    carried = load_carried()
    busy = busy_links([len(path) for path in paths], frames)
    rate_bps = rate_for(carried, busy)
    return rate_bps, rate_description(rate_bps, carried, busy)


def this_machine() -> tuple[int, str]:
    """Return the number of processors of this process, and the kernel. The load depends on both."""
    return len(os.sched_getaffinity(0)), platform.release()


def save_carried(carried: MachineCapacity) -> Path:
    """Write the file, and return its path; InputError if it cannot be written."""
    path = load_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(carried.to_json()) + "\n")
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror}; let XDG_CACHE_HOME name a directory that can be written"
        ) from None
    return path
