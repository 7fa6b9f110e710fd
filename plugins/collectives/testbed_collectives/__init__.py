"""Schedules of collectives in the formats of other programs.

The XML of MSCCL is written and read, and the JSON of TE-CCL is read. ``checker`` checks schedules
chunk by chunk. An algorithm of MSCCL is written only after the reader has read it, executed it, and
found that every block arrives.
"""

from __future__ import annotations

from typing import Any

from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic
from testbed_collectives.reader import carry_out, check_all_to_all, read_algorithm
from testbed_collectives.writer import msccl_algorithm


def write_algorithm(traffic: Traffic, schedule: Schedule) -> tuple[bytes, dict[str, Any]]:
    """Return a schedule as an algorithm of MSCCL, which has been executed.

    Returns:
        The content of the file, and the number of ranks and blocks for the output of the command.
    """
    text = msccl_algorithm(traffic, schedule, f"testbed-{schedule.method}")
    algorithm = read_algorithm(text)
    carried = carry_out(algorithm)
    check_all_to_all(carried)
    summary = {"ranks": algorithm.ranks, "blocks_carried": len(carried.arrivals)}
    return text.encode(), {"msccl": summary}
