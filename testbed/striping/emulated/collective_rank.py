"""One rank of a collective access by MPI-I/O views, timed: `python -m testbed.striping.emulated.collective_rank JSON`.
Rank 0 leaves in a file the seconds of every repetition, the bytes that crossed all ranks' links (all frames, and the
bytes that connections carried, each once), whether all read what they should, and what share of the processors the
run's own threads had meanwhile, or waited for."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from sfio_emu.client.current_session import current_session
from sfio_emu.views.datatypes import DOUBLE, subarray
from sfio_emu.views.mpi_file import MpiFile
from testbed.emulation.machine.load_monitor import load_between, read_counts
from testbed.striping.oracle import file_content


def main(argument: str) -> None:
    """The keys of the argument are those that `collective_run.run_collective` gives."""
    requested = json.loads(argument)
    side, writing = requested["side"], requested["operation"] == "write"
    group = current_session().group
    content = file_content(side * side * 8, requested["seed"]).reshape(side, side * 8)
    first, end = side * group.rank // group.size, side * (group.rank + 1) // group.size
    mine = np.ascontiguousarray(content[:, 8 * first : 8 * end])
    got = np.zeros_like(mine)
    times = []
    with MpiFile.open(requested["name"], requested["stripe_unit"], hints=requested["hints"]) as file:
        file.set_view(0, DOUBLE, subarray([side, side], [side, end - first], [0, first], DOUBLE))
        file.read_at_all(0, got[:1])  # streams between ranks, and what is compiled, are there when the clock starts
        file.write_at_all(0, mine[:1])
        group.barrier()
        before, payload, counts = _crossed(writing), _payload(writing), read_counts()
        for _ in range(requested["repeat"]):
            group.barrier()
            start_s = time.monotonic()
            if writing:
                file.write_at_all(0, mine)
            else:
                file.read_at_all(0, got)
            group.barrier()
            times.append(time.monotonic() - start_s)
        payload = _payload(writing) - payload
        crossed, busy = _crossed(writing) - before, load_between(counts, read_counts(), ()).cpu_fraction
    right = writing or bool(np.array_equal(got, mine))
    every = [json.loads(item) for item in group.all_gather(json.dumps([crossed, payload, right]).encode())]
    if group.rank == 0:
        crossed, payload, right = (
            sum(item[0] for item in every),
            sum(item[1] for item in every),
            all(item[2] for item in every),
        )
        reported = {"seconds": times, "crossed": crossed, "payload": payload, "right": right}
        Path(requested["told"]).write_text(json.dumps(reported | {"cpu_fraction": busy}))


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
