"""One process's access to a striped file through MPI-I/O, its data fragmented in memory, in the file, in both or in
neither (Gabrielyan 2007, section 2.9, figure 22), on a network of real switches.

``run_fragmented`` starts the ranks; ``python -m testbed.striping.emulated.fragmented_access JSON`` is one of them.
"""

import json
import sys
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from testbed.striping.oracle import Bytes, file_content
from topologies.text.json_types import JsonObject


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


def run_fragmented(network_name: str, nodes: int, link_rate_bps: float, access: FragmentedAccess) -> JsonObject:
    """Inside the sandbox: as ``run_access``, by as many processes as I/O nodes."""
    from testbed.bulk.planning import at_rate
    from testbed.striping.emulated.collective_run import run_access
    from testbed.striping.placement import place
    from topologies import load_network

    placement = place(at_rate(load_network(network_name), link_rate_bps), nodes, nodes)
    content = file_content(access.bytes_each * nodes, access.seed)
    return run_access(placement, "testbed.striping.emulated.fragmented_access", access, asdict(access), content)


def main(argument: str) -> None:
    """One rank."""
    from sfio_emu.client.current_session import current_session
    from sfio_emu.views.datatypes import BYTE, contiguous, resized, vector
    from sfio_emu.views.mpi_file import MpiFile
    from testbed.striping.emulated.collective_rank import tell, timed_repeats

    requested = json.loads(argument)
    access = FragmentedAccess(**requested["access"])
    group = current_session().group
    piece, count = access.piece_bytes, access.pieces
    content = file_content(access.bytes_each * group.size, access.seed)
    mine = _share(content, access, group.rank, group.size)
    memory = vector(count, piece, 2 * piece, BYTE) if access.in_memory else contiguous(count * piece, BYTE)
    buffer, got = _laid_out(mine, access), np.zeros(2 * len(mine), dtype=np.uint8)
    with MpiFile.open(requested["name"], access.stripe_unit) as file:
        if access.in_file:
            file.set_view(group.rank * piece, BYTE, resized(contiguous(piece, BYTE), 0, group.size * piece))
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
    taken = got.reshape(count, 2 * piece)[:, :piece].ravel() if access.in_memory else got[: len(mine)]
    right = access.operation == "write" or bool(np.array_equal(taken, mine))
    tell(group, requested["told"], timed, right=right)


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
