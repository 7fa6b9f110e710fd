"""Schedules of collectives in the formats of other programs: MSCCL's XML is written (nothing before a reader has
carried it out and every block has arrived) and read, TE-CCL's JSON is read; ``checker`` judges them chunk by chunk."""

from __future__ import annotations

from typing import Any

from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic
from testbed_collectives.reader import carry_out, check_all_to_all, read_algorithm
from testbed_collectives.writer import msccl_algorithm


def write_algorithm(traffic: Traffic, schedule: Schedule) -> tuple[bytes, dict[str, Any]]:
    """The schedule as an algorithm of MSCCL, read again and carried out; how many ranks and blocks there were."""
    text = msccl_algorithm(traffic, schedule, f"testbed-{schedule.method}")
    algorithm = read_algorithm(text)
    carried = carry_out(algorithm)
    check_all_to_all(carried)
    return text.encode(), {
        "msccl": {"ranks": algorithm.ranks, "blocks_carried": len(carried.arrivals)}
    }
