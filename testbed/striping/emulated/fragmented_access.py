"""One process's access to a striped file through MPI-I/O, its data fragmented in memory, in the file, in both or in
neither (Gabrielyan 2007, section 2.9, figure 22), on a network of real switches.

``run_fragmented`` starts the ranks; ``python -m testbed.striping.emulated.fragmented_access JSON`` is one of them.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from sfio_emu.ports import ProcessGroup
from testbed.errors import InvalidRunError
from testbed.model.machine.load import overload_message
from testbed.striping.emulated.program_run import ProgramNetwork
from testbed.striping.judgement import UNCOORDINATED_LIMITS
from testbed.striping.oracle import Bytes, file_content, verified_subfiles, write_subfiles
from topologies import JsonObject, load_network


@dataclass(frozen=True, kw_only=True)
class FragmentedAccess:
    """Every process writes, or reads, ``bytes_each``; ``file_bytes`` is that of all. ``in_memory``, ``in_file``: in
    pieces of ``piece_bytes``, as far apart in memory again, in the file the other processes' between them. ``at_once``:
    one call; else a call for each piece. ``repeat``: times that the operation is carried out."""

    bytes_each: int
    piece_bytes: int
    in_memory: bool
    in_file: bool
    at_once: bool
    operation: Literal["write", "read"]
    stripe_unit: int
    repeat: int
    seed: int

    @property
    def pieces(self) -> int:
        return self.bytes_each // self.piece_bytes


def run_fragmented(
    network_name: str, nodes: int, link_rate_bps: float, access: FragmentedAccess
) -> JsonObject:
    """Inside the sandbox, by as many processes as I/O nodes: what rank 0 tells, with `verified`, and `invalid`: why the
    run says nothing, or None. Raises InvalidRunError where a rank fails."""
    from testbed.bulk.link_rates import at_rate
    from testbed.striping.emulated.scratch_folders import scratch_folder
    from testbed.striping.placement import place

    placement = place(at_rate(load_network(network_name), link_rate_bps), nodes, nodes)
    content = file_content(access.bytes_each * nodes, access.seed)
    with scratch_folder(Path.cwd()) as root:
        with ProgramNetwork(placement, root) as network:
            for node in placement.io:
                (root / node / "data").touch()
            before = np.zeros_like(content) if access.operation == "write" else content
            write_subfiles(before, root, placement, access.stripe_unit)
            reported = reported_by_ranks(network, asdict(access))
        verified = verified_subfiles(content, root, placement, access.stripe_unit)
    limit = UNCOORDINATED_LIMITS.cpu_fraction or 1.0
    busy = (
        f"its threads had or wanted its processors for {reported['cpu_fraction']:.0%} of the time"
    )
    invalid = overload_message(busy) if reported["cpu_fraction"] >= limit else None
    return reported | {"verified": bool(reported["right"] and verified), "invalid": invalid}


def reported_by_ranks(network: ProgramNetwork, access: JsonObject) -> JsonObject:
    """What rank 0 tells of the program's one run."""
    answer = network.root / "told.json"
    argument = {"told": str(answer), "name": network.placement.file_name(), "access": access}
    rank = [sys.executable, "-P", "-m", __name__, json.dumps(argument)]
    end = network.run(rank, time_limit_s=90)
    if end.exit_code:
        raise InvalidRunError(f"rank {end.rank} of the access ended with exit code {end.exit_code}")
    return dict(json.loads(answer.read_text()))


def timed_repeats(group: ProcessGroup, repeat: int, once: Callable[[], object]) -> JsonObject:
    """`seconds` of every repetition, in step with all ranks, and `cpu_fraction`: what share of the processors the run's
    own threads had meanwhile, or waited for."""
    from testbed.emulation.machine.load_monitor import load_between, read_counts

    times, before = [], read_counts()
    for _ in range(repeat):
        group.barrier()
        start_s = time.monotonic()
        once()
        group.barrier()
        times.append(time.monotonic() - start_s)
    return {"seconds": times, "cpu_fraction": load_between(before, read_counts(), ()).cpu_fraction}


def main(argument: str) -> None:
    """One rank."""
    from sfio_emu.client.current_session import current_session
    from sfio_emu.views.datatypes import BYTE, contiguous, resized, vector
    from sfio_emu.views.mpi_file import MpiFile

    requested = json.loads(argument)
    access = FragmentedAccess(**requested["access"])
    group = current_session().group
    piece, count = access.piece_bytes, access.pieces
    content = file_content(access.bytes_each * group.size, access.seed)
    mine = _share(content, access, group.rank, group.size)
    memory = (
        vector(count, piece, 2 * piece, BYTE)
        if access.in_memory
        else contiguous(count * piece, BYTE)
    )
    buffer, got = _laid_out(mine, access), np.zeros(2 * len(mine), dtype=np.uint8)
    with MpiFile.open(requested["name"], access.stripe_unit) as file:
        if access.in_file:
            file.set_view(
                group.rank * piece, BYTE, resized(contiguous(piece, BYTE), 0, group.size * piece)
            )
        else:
            file.set_view(group.rank * access.bytes_each, BYTE)
        target = buffer if access.operation == "write" else got
        call = file.write_at if access.operation == "write" else file.read_at
        step = 2 * piece if access.in_memory else piece

        def once() -> None:
            if access.at_once:
                call(0, target, memory)
            else:
                for number in range(count):
                    call(number * piece, target[number * step : number * step + piece])

        call(0, target, memory)  # a rehearsal: what is compiled is there when the clock starts
        group.barrier()
        timed = timed_repeats(group, access.repeat, once)
    taken = (
        got.reshape(count, 2 * piece)[:, :piece].ravel() if access.in_memory else got[: len(mine)]
    )
    right = access.operation == "write" or bool(np.array_equal(taken, mine))
    every = group.all_gather(json.dumps(right).encode())
    if group.rank == 0:
        Path(requested["told"]).write_text(
            json.dumps(timed | {"right": all(map(json.loads, every))})
        )


def _share(content: Bytes, access: FragmentedAccess, rank: int, processes: int) -> Bytes:
    """The process's bytes of the file, shape (bytes_each,), in the order of the file."""
    if not access.in_file:
        return content[rank * access.bytes_each : (rank + 1) * access.bytes_each]
    table = content.reshape(access.pieces, processes, access.piece_bytes)
    return np.ascontiguousarray(table[:, rank, :]).ravel()


def _laid_out(mine: Bytes, access: FragmentedAccess) -> Bytes:
    """The bytes as they lie in memory: with gaps as long as the pieces, or one after the other."""
    if not access.in_memory:
        return np.ascontiguousarray(mine)
    memory = np.zeros((access.pieces, 2 * access.piece_bytes), dtype=np.uint8)
    memory[:, : access.piece_bytes] = mine.reshape(access.pieces, access.piece_bytes)
    return memory.ravel()


if __name__ == "__main__":
    main(sys.argv[1])
