"""What a rank of a timed access tells: the seconds of every repetition, whether all ranks read what they should, and
what share of the processors the run's own threads had meanwhile, or waited for."""

import json
import time
from collections.abc import Callable
from pathlib import Path

from sfio_emu.ports import ProcessGroup
from testbed.emulation.machine.load_monitor import load_between, read_counts
from topologies.text.json_types import JsonObject


def timed_repeats(group: ProcessGroup, repeat: int, once: Callable[[], object]) -> JsonObject:
    """`seconds` of every repetition, in step with all ranks, and `cpu_fraction`: of the threads meanwhile."""
    times, before = [], read_counts()
    for _ in range(repeat):
        group.barrier()
        start_s = time.monotonic()
        once()
        group.barrier()
        times.append(time.monotonic() - start_s)
    return {"seconds": times, "cpu_fraction": load_between(before, read_counts(), ()).cpu_fraction}


def tell(group: ProcessGroup, path: str, timed: JsonObject, *, right: bool) -> None:
    """Rank 0 leaves in the file what it timed, and whether all are right."""
    every = group.all_gather(json.dumps(right).encode())
    if group.rank == 0:
        Path(path).write_text(json.dumps(timed | {"right": all(map(json.loads, every))}))
