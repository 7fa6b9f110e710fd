"""Keyword arguments of ``testbed.NAME_plan`` under the names that they had in 0.2: taken until 0.4."""

import warnings
from collections.abc import Mapping
from typing import Any

from testbed.errors import UsageError

KEYWORDS: Mapping[str, Mapping[str, str]] = {
    "download_plan": {"method": "routing", "last_rate_bps": "last_mile_rate_bps"},
    "bulk_plan": {
        "method": "scheduling",
        "alone": "no_comparison",
        "injected": "inject_packets",
        "killed": "kill",
        "time_limit_s": "solver_time_limit_s",
    },
    "striping_plan": {
        "order": "host_selection",
        "without": "disable",
        "repeat": "repetitions",
        "block_bytes": "access_block_bytes",
        "killed": "kill",
        "time_limit_s": "solver_time_limit_s",
        "schedule": "scheduling",  # where it is "none" or "liquid"
    },
    "simulation_plan": {
        "rate": "load",
        "rates": "loads",
        "seeds": "repetitions",
        "burst": "burst_length",
        "in_phase": "synchronised",
        "skip_bad_rows": "trace_skip_bad_rows",
    },
}
"""By function: what a keyword argument was, and what it is."""


def present_keywords(function: str, named: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of a function under their present names, each former one with a DeprecationWarning.

    Raises UsageError where a former and its present name are both there, and for a rate in a unit of its own.
    """
    table, found = KEYWORDS.get(function, {}), dict(named)
    if function == "simulation_plan" and "rate_unit" in found and found.pop("rate_unit") == "packets/s":
        if "rate" not in found:
            raise UsageError("simulation_plan: rate_unit is gone; give packet_rate_pps")
        table = {**table, "rate": "packet_rate_pps"}
    for former, present in table.items():
        if former not in found or (former == "schedule" and found[former] not in ("none", "liquid")):
            continue
        if present in found:
            raise UsageError(f"{function}: {former} is now {present}, which is there too; give it once")
        said = f"{function}: {former} is now {present}; the old name goes in 0.4"
        warnings.warn(said, DeprecationWarning, stacklevel=4)
        found[present] = found.pop(former)
    return found
