"""One rank of a collective access by MPI-I/O views, timed: `python -m testbed.striping.emulated.collective_rank JSON`.
Rank 0 leaves in a file the seconds of every repetition, the bytes that crossed all ranks' links (all frames, and the
bytes that connections carried, each once), whether all read what they should, and what share of the processors the
run's own threads had meanwhile, or waited for."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from sfio_emu.client.current_session import current_session
from sfio_emu.ports import ProcessGroup
from sfio_emu.views.datatypes import DOUBLE, subarray
from sfio_emu.views.mpi_file import MpiFile
from testbed.emulation.machine.load_monitor import load_between, read_counts
from testbed.striping.oracle import file_content
from topologies.text.json_types import JsonObject


def main(argument: str) -> None:
    """The keys of the argument are those that `collective_run.run_access` gives."""
    requested = json.loads(argument)
    access = requested["access"]
    side, writing = access["side"], access["operation"] == "write"
    group = current_session().group
    content = file_content(side * side * 8, access["seed"]).reshape(side, side * 8)
    first, end = side * group.rank // group.size, side * (group.rank + 1) // group.size
    mine = np.ascontiguousarray(content[:, 8 * first : 8 * end])
    got = np.zeros_like(mine)
    with MpiFile.open(requested["name"], access["stripe_unit"], hints=access["hints"]) as file:
        file.set_view(0, DOUBLE, subarray([side, side], [side, end - first], [0, first], DOUBLE))
        file.read_at_all(0, got[:1])  # streams between ranks, and what is compiled, are there when the clock starts
        file.write_at_all(0, mine[:1])
        group.barrier()
        before = _crossed(writing), _payload(writing)
        once = partial(file.write_at_all, 0, mine) if writing else partial(file.read_at_all, 0, got)
        timed = timed_repeats(group, access["repeat"], once)
        payload, crossed = _payload(writing) - before[1], _crossed(writing) - before[0]
    right = writing or bool(np.array_equal(got, mine))
    tell(group, requested["told"], timed, right=right, crossed=crossed, payload=payload)


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


def _crossed(sent: bool) -> int:
    """Bytes that this host has sent, or received, so far; its own loopback left out."""
    total = 0
    for line in Path("/proc/net/dev").read_text().splitlines()[2:]:
        name, _, figures = line.partition(":")
        if name.strip() != "lo":
            total += int(figures.split()[8 if sent else 0])
    return total


def _payload(sent: bool) -> int:
    """Bytes that the connections of this host have sent, or received, so far, each counted once however often it was
    sent."""
    said = subprocess.run(["ss", "-tinH"], capture_output=True, text=True, check=True).stdout
    return sum(map(int, re.findall(rf"\b{'bytes_acked' if sent else 'bytes_received'}:(\d+)", said)))


if __name__ == "__main__":
    main(sys.argv[1])
