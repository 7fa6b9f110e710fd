"""Where ``testbed doctor --calibrate`` keeps what the machine carries: one file a user, in the cache directory of the system."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path

from testbed.errors import InputError
from testbed.model.machine.carried_load import CarriedLoad, parse_carried_load


def load_file() -> Path:
    """``$XDG_CACHE_HOME/testbed/carried_load.json``, by default under ~/.cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "testbed" / "carried_load.json"


def load_carried() -> CarriedLoad | None:
    """What was measured here; None where nothing was, or on other processors or another kernel."""
    try:
        found = parse_carried_load(json.loads(load_file().read_text()))
    except (OSError, ValueError, TypeError):
        return None
    if found is None or (found.processors, found.kernel) != this_machine():
        return None
    return found


def this_machine() -> tuple[int, str]:
    """Processors that this process may use, and the kernel: with other ones a measurement no longer holds."""
    return len(os.sched_getaffinity(0)), platform.release()


def save_carried(carried: CarriedLoad) -> Path:
    """Write the file; returns it. InputError where it cannot be written."""
    path = load_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(carried.to_json()) + "\n")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; let XDG_CACHE_HOME name a directory that can be written") from None
    return path
