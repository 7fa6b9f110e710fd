"""Where ``testbed doctor --calibrate`` keeps what the machine carries: one file a user, in the cache directory of the
system.

And the rate of links that follows from it, where a command is given none.
"""

import json
import os
import platform
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from testbed.errors import InputError
from testbed.model.json_values import from_json, is_file, read_json
from testbed.model.machine.capacity import (
    USUAL_RATE_BPS,
    MachineCapacity,
    busy_links,
    rate_description,
    rate_for,
)
from testbed.model.naming.names import NetworkLike, known_network
from testbed.report.column_units import in_words


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


def unused_capacities(network: NetworkLike, link_rate_bps: float, reason: str) -> str:
    """Return the end of a sentence that says which capacities the links do not have in a run.

    It is empty if all links have one capacity and the network is not the user's own file: nobody
    chose the capacity of a catalogue network.
    """
    capacities = {link.capacity_bps for link in known_network(network).links}
    from_file = isinstance(network, (str, PathLike)) and is_file(str(network))
    if capacities == {link_rate_bps} or (len(capacities) == 1 and not from_file):
        return ""
    limits = sorted({min(capacities), max(capacities)})
    rates = " to ".join(in_words(rate, "_bps") for rate in limits)
    return f", all alike: the network's own capacities ({rates}) are not used, since {reason}"


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
