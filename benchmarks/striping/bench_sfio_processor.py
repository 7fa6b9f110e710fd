"""Measures the processor time of striped calls on both sides.

    python benchmarks/striping/bench_sfio_processor.py [--quick] [--part PART] [--folder DIR]

Other programs on the machine change processor time little. One client and three listeners in one
process run on one core, over loopback. The figures are medians of rounds in which all cases take
turns in random order. The parts:

- calls: calls of 1000 bytes over three nodes, in microseconds, within the file and beyond its end;
- views: a share of a file by stripes, and by a view whose blocks interleave with those of three
  other processes, in nanoseconds per byte;
- checksums: long writes and reads with checksums and without;
- keys: a connection, and a call of 100 bytes, with the key of a run and without.

Another version of the packages is measured if PYTHONPATH names it.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.striping.bench_sfio import HOSTS, start_listeners
from sfio_emu import Session, Settings, StripedFile
from sfio_emu.adapters.key_files import new_key, write_key
from sfio_emu.adapters.listener_clients import DEFAULT_MESSAGE_BYTES
from sfio_emu.adapters.sockets import TcpConnections
from sfio_emu.client.current_session import use
from sfio_emu.views.datatypes import BYTE, contiguous, resized
from sfio_emu.views.mpi_file import MpiFile

PARTS = ("calls", "views", "checksums", "keys")
# Block sizes of the views, which are also the stripe units.
BLOCKS = (75, 200, 1005)
# Stripe units of the long accesses.
UNITS = (75, 5000, 65536)
# Number of processes whose blocks interleave.
RANKS = 4
# Number of calls that are measured together, and their size.
CALLS = 200
CALL_BYTES = 1000
KEYED_CALL_BYTES = 100

Case = Callable[[], object]
Addresses = Mapping[str, tuple[str, int]]


class Cost(NamedTuple):
    """Processor time of client and listeners in seconds."""

    client_s: float
    listeners_s: float


# The costs of each case, one per round.
Costs = dict[str, list[Cost]]


def processor_s(process: int) -> float:
    """Return the processor time of all threads of another process, in seconds."""
    total_ns = 0
    for task in Path(f"/proc/{process}/task").iterdir():
        total_ns += int((task / "schedstat").read_text().split()[0])
    return total_ns / 1e9


def measure(cases: Mapping[str, Case], listeners: Sequence[int], rounds: int) -> Costs:
    """Measure all cases in turn, in random order; the first round is not counted.

    Args:
        cases: The cases by name.
        listeners: Ids of the listeners' processes.
        rounds: Number of rounds.
    """
    rng = random.Random(1)
    costs: Costs = {}
    for number in range(rounds + 1):
        for name in rng.sample(list(cases), len(cases)):
            listeners_start_s = sum(map(processor_s, listeners))
            client_start_s = process_time()
            cases[name]()
            client_s = process_time() - client_start_s
            listeners_s = sum(map(processor_s, listeners)) - listeners_start_s
            if number > 0:
                costs.setdefault(name, []).append(Cost(client_s, listeners_s))
    return costs


def median_ratio(costs: Costs, over: str, under: str) -> float:
    """Return the median of the ratios of the total costs of two cases, round by round."""
    ratios = [sum(a) / sum(b) for a, b in zip(costs[over], costs[under], strict=True)]
    return statistics.median(ratios)


def cost_text(costs: Costs, name: str, count: int) -> str:
    """Return the median costs of client and listeners in nanoseconds, divided by ``count``."""
    client_s = statistics.median(cost.client_s for cost in costs[name])
    listeners_s = statistics.median(cost.listeners_s for cost in costs[name])
    return f"{client_s / count * 1e9:.2f} + {listeners_s / count * 1e9:.2f}"


def file_name(name: str) -> str:
    """Return the name of a file that is striped over all hosts."""
    return ";".join(f"{host}/{name}" for host in HOSTS)


def measure_calls(session: Session, listeners: int, rounds: int) -> None:
    """Measure calls within a file, and beyond its end."""
    data = bytes(CALL_BYTES)
    file = StripedFile.open(file_name("small"), 75, session=session)

    def write_within() -> None:
        for number in range(CALLS):
            file.pwrite(data, CALL_BYTES * number)

    def write_beyond() -> None:
        file.truncate(0)
        write_within()

    cases = {"beyond the end": write_beyond, "within": write_within}
    costs = measure(cases, [listeners], rounds)
    for name in costs:
        # Microseconds are 1000 nanoseconds.
        text = cost_text(costs, name, CALLS * 1000)
        print(f"write {CALL_BYTES} bytes, units of 75, {name:14}: {text} us")
    print(f"beyond the end over within: {median_ratio(costs, 'beyond the end', 'within'):.2f}")


class ViewAccess(NamedTuple):
    """An access of a process to its share of a file.

    Attributes:
        file: The file.
        displacement: First byte of the view.
        tile: File type of the view.
    """

    file: MpiFile
    displacement: int
    tile: Any

    def write(self, data: Any) -> None:
        self.file.set_view(self.displacement, BYTE, self.tile)
        self.file.write_at(0, data)

    def read(self, buffer: Any) -> None:
        self.file.set_view(self.displacement, BYTE, self.tile)
        self.file.read_at(0, buffer)


def measure_views(session: Session, listeners: int, rounds: int, total_bytes: int) -> None:
    """Measure accesses by stripes and by views."""
    use(session)
    cases: dict[str, Case] = {}
    share_bytes = {}
    with ExitStack() as stack:
        for block in BLOCKS:
            share_bytes[block] = total_bytes // RANKS // block * block
            file = MpiFile.open(file_name(f"views-{block}"), block, session=session)
            stack.enter_context(file)
            cases |= view_cases(file, block, share_bytes[block])
        costs = measure(cases, [listeners], rounds)
    for block in BLOCKS:
        for name in ("write", "read"):
            stripes = f"{name} stripes {block}"
            views = f"{name} views {block}"
            print(
                f"{name:5} blocks of {block:4}: "
                f"stripes {cost_text(costs, stripes, share_bytes[block])} ns a byte, "
                f"views {cost_text(costs, views, share_bytes[block])}: "
                f"{median_ratio(costs, stripes, views):.2f} of the speed of stripes"
            )


def view_cases(file: MpiFile, block: int, share_bytes: int) -> dict[str, Case]:
    """Fill a file, and return the cases of a block size.

    Args:
        file: The file.
        block: The block size.
        share_bytes: Bytes of each process.
    """
    data = np.random.default_rng(1).integers(0, 256, share_bytes, dtype=np.uint8)
    file.set_view(0, BYTE, BYTE)
    for rank in range(RANKS):
        file.write_at(rank * share_bytes, data)
    interleaved = resized(contiguous(block, BYTE), 0, block * RANKS)
    accesses = {
        "stripes": ViewAccess(file, share_bytes, BYTE),
        "views": ViewAccess(file, block, interleaved),
    }
    cases: dict[str, Case] = {}
    for kind, access in accesses.items():
        buffer = np.zeros_like(data)
        access.write(data)
        access.read(buffer)
        if not np.array_equal(data, buffer):
            raise SystemExit(f"{kind} of {block} bytes: what was read is not what was written")
        cases[f"write {kind} {block}"] = partial(access.write, data)
        cases[f"read {kind} {block}"] = partial(access.read, buffer)
    return cases


def measure_checksums(addresses: Addresses, listeners: int, rounds: int, total_bytes: int) -> None:
    """Measure long accesses with checksums and without."""
    data = np.random.default_rng(2).integers(0, 256, total_bytes, dtype=np.uint8)
    buffer = np.zeros_like(data)
    writes: dict[str, Case] = {}
    reads: dict[str, Case] = {}
    for unit in UNITS:
        for checked in (True, False):
            settings = Settings(check_data=checked, check_reads=checked)
            session = Session(TcpConnections(addresses), settings=settings)
            file = StripedFile.open(file_name(f"long-{unit}"), unit, session=session)
            writes[f"write {unit} {checked}"] = partial(file.pwrite, data, 0)
            reads[f"read {unit} {checked}"] = partial(file.pread, buffer, 0)
    # Files are written before they are read.
    costs = measure(writes, [listeners], rounds)
    costs |= measure(reads, [listeners], rounds)
    for unit in UNITS:
        ratios = []
        plain_costs = []
        for name in ("write", "read"):
            checked_case = f"{name} {unit} True"
            plain_case = f"{name} {unit} False"
            ratios.append(f"{name} {median_ratio(costs, checked_case, plain_case):.2f}")
            plain_costs.append(f"{name} {cost_text(costs, plain_case, total_bytes)}")
        print(
            f"checksums, units of {unit:5}: {', '.join(ratios)} times what it costs without "
            f"({', '.join(plain_costs)} ns a byte)"
        )


def measure_keys(root: Path, rounds: int) -> None:
    """Measure connections and calls with a key and without."""
    key = new_key()
    key_file = root / "key-file"
    write_key(key_file, key)
    cases: dict[str, Case] = {}
    listeners = []
    with ExitStack() as stack:
        for name, session_key in (("key", key), ("none", None)):
            folder = root / name
            folder.mkdir()
            options = ("--key-file", str(key_file)) if session_key else ()
            process, addresses = start_listeners(folder, DEFAULT_MESSAGE_BYTES, *options)
            stack.callback(_end, process)
            listeners.append(process.pid)
            connections = TcpConnections(addresses, key=session_key)
            file = StripedFile.open("p1/small", 75, session=Session(connections))
            cases[f"connection {name}"] = partial(connect_often, connections)
            cases[f"call {name}"] = partial(write_often, file)
        costs = measure(cases, listeners, rounds)
    for subject in ("connection", "call"):
        with_key = cost_text(costs, f"{subject} key", CALLS * 1000)
        without = cost_text(costs, f"{subject} none", CALLS * 1000)
        ratio = median_ratio(costs, f"{subject} key", f"{subject} none")
        print(f"{subject}: with a key {with_key} us, {ratio:.2f} times that without ({without} us)")


def connect_often(connections: TcpConnections) -> None:
    for _ in range(CALLS):
        session = Session(connections)
        session.link(HOSTS[0])
        session.close()


def write_often(file: StripedFile) -> None:
    data = bytes(KEYED_CALL_BYTES)
    for _ in range(CALLS):
        file.pwrite(data, 0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print all parts, or one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="three rounds of 8 MB instead of nine of 32 and 60"
    )
    parser.add_argument("--part", choices=PARTS, help="only this part")
    parser.add_argument("--folder", help="folder for the subfiles (default: /dev/shm)")
    options = parser.parse_args(arguments)
    rounds = 3 if options.quick else 9
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    folder = options.folder
    if folder is None and Path("/dev/shm").is_dir():
        folder = "/dev/shm"
    parts = (options.part,) if options.part else PARTS
    with tempfile.TemporaryDirectory(dir=folder) as root, ExitStack() as stack:
        process, addresses = start_listeners(Path(root), DEFAULT_MESSAGE_BYTES)
        stack.callback(_end, process)
        session = Session(TcpConnections(addresses))
        if "calls" in parts:
            measure_calls(session, process.pid, rounds)
        if "views" in parts:
            megabytes = 8 if options.quick else 32
            measure_views(session, process.pid, rounds, megabytes << 20)
        if "checksums" in parts:
            total_bytes = 8_000_000 if options.quick else 60_000_000
            measure_checksums(addresses, process.pid, rounds, total_bytes)
        if "keys" in parts:
            measure_keys(Path(root), rounds)
    return 0


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


if __name__ == "__main__":
    sys.exit(main())
