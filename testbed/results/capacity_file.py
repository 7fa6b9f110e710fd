"""Where ``testbed doctor --calibrate`` keeps what the machine carries: one file a user, in the cache directory of the
system.

And the rate of links that follows from it, where a command is given none.
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
    """``$XDG_CACHE_HOME/testbed/carried_load.json``, by default under ~/.cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "testbed" / "carried_load.json"


def load_carried() -> MachineCapacity | None:
    """What was measured here; None where nothing was, or on other processors or another kernel."""
    try:
        found = from_json(MachineCapacity, read_json(load_file()), "carried load")
    except InputError:
        return None
    holds = (
        min(found.link_bps, found.rate_bps) > 0
        and (found.processors, found.kernel) == this_machine()
    )
    return found if holds else None


def chosen_rate(
    requested_bps: float | None, paths: Sequence[Sequence[object]], frames: float, fabric: str
) -> tuple[float, str]:
    """(bits a second, the sentence that says where they come from) for transfers over these paths in so many time
    frames. If links differ in rate, it is the fastest link's, and ``frames`` counts messages over that link."""
    if requested_bps is not None:
        return requested_bps, f"links of {requested_bps / 1e6:g} Mbit/s, as asked"
    if fabric != "emulation":
        return USUAL_RATE_BPS, f"links of {USUAL_RATE_BPS / 1e6:g} Mbit/s, the usual rate"
    carried, busy = load_carried(), busy_links([len(path) for path in paths], frames)
    rate_bps = rate_for(carried, busy)
    return rate_bps, rate_description(rate_bps, carried, busy)


def this_machine() -> tuple[int, str]:
    """Processors that this process may use, and the kernel: with other ones a measurement no longer holds."""
    return len(os.sched_getaffinity(0)), platform.release()


def save_carried(carried: MachineCapacity) -> Path:
    """Write the file; returns it. InputError where it cannot be written."""
    path = load_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(carried.to_json()) + "\n")
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror}; let XDG_CACHE_HOME name a directory that can be written"
        ) from None
    return path
