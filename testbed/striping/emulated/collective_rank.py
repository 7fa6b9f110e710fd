"""What each rank of a timed access does: repeat it in step with all, and leave in a file what was measured."""

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


def tell(group: ProcessGroup, path: str, timed: JsonObject, *, right: bool, **sums: int) -> None:
    """Rank 0 leaves in the file what it timed, whether all are right, and sums over all ranks."""
    every = [json.loads(item) for item in group.all_gather(json.dumps([right, sums]).encode())]
    if group.rank == 0:
        totals = {name: sum(own[name] for _, own in every) for name in sums}
        Path(path).write_text(json.dumps(timed | totals | {"right": all(fine for fine, _ in every)}))
