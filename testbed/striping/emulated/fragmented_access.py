"""Access to a striped file through MPI-I/O with fragmented data, on a network of switches.

The data is fragmented in memory, in the file, in both or in neither (Gabrielyan 2007, section 2.9,
figure 22). ``run_fragmented`` starts the ranks. Each of them runs
``python -m testbed.striping.emulated.fragmented_access JSON``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from sfio_emu.ports import ProcessGroup
from testbed.errors import InvalidRunError
from testbed.model.machine.load import overload_message
from testbed.striping.emulated.program_run import ProgramNetwork
from testbed.striping.judgement import UNCOORDINATED_LIMITS
from testbed.striping.oracle import Bytes, file_content, verified_subfiles, write_subfiles
from topologies import JsonObject, load_network

if TYPE_CHECKING:
    from sfio_emu.views.datatypes import Datatype
    from sfio_emu.views.mpi_file import MpiFile

# The time limit of the ranks in seconds.
_TIME_LIMIT_S = 90


@dataclass(frozen=True, kw_only=True)
class FragmentedAccess:
    """An access in which every process writes, or reads, the same number of bytes.

    Attributes:
        bytes_each: The bytes of each process.
        piece_bytes: The size of a piece of fragmented data.
        in_memory: Whether the data is in pieces in memory, with gaps as long as the pieces.
        in_file: Whether the data is in pieces in the file, with the pieces of the other processes
            between them.
        at_once: True: one call. False: one call for each piece.
        operation: Whether the processes write or read.
        stripe_unit: The size of a stripe unit in bytes.
        repeat: How often the operation is carried out.
        seed: The seed of the content.
    """

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
        """The number of pieces of each process."""
        return self.bytes_each // self.piece_bytes


def run_fragmented(
    network_name: str, nodes: int, link_rate_bps: float, access: FragmentedAccess
) -> JsonObject:
    """Run an access inside the sandbox.

    Args:
        network_name: The network.
        nodes: The number of processes, and of I/O nodes.
        link_rate_bps: The rate of every link.
        access: The access.

    Returns:
        The report of rank 0, with ``verified``, and with ``invalid``: why the run says nothing
        about the network, or None.

    Raises:
        InvalidRunError: A rank failed.
    """
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
    invalid = None
    if reported["cpu_fraction"] >= limit:
        invalid = overload_message(
            "its threads had or wanted its processors for"
            f" {reported['cpu_fraction']:.0%} of the time"
        )
    return reported | {"verified": bool(reported["right"] and verified), "invalid": invalid}


def reported_by_ranks(network: ProgramNetwork, access: JsonObject) -> JsonObject:
    """Run the ranks of an access, and return the report of rank 0.

    Args:
        network: The network.
        access: The fields of the access.

    Raises:
        InvalidRunError: A rank failed.
    """
    report = network.root / "told.json"
    argument = {"told": str(report), "name": network.placement.file_name(), "access": access}
    command = [sys.executable, "-P", "-m", __name__, json.dumps(argument)]
    end = network.run(command, time_limit_s=_TIME_LIMIT_S)
    if end.exit_code:
        raise InvalidRunError(f"rank {end.rank} of the access ended with exit code {end.exit_code}")
    return dict(json.loads(report.read_text()))


def timed_repeats(group: ProcessGroup, repeat: int, once: Callable[[], object]) -> JsonObject:
    """Carry out an operation repeatedly, in step with all ranks.

    Args:
        group: All ranks.
        repeat: The number of repetitions.
        once: The operation.

    Returns:
        ``seconds`` of every repetition. ``cpu_fraction``: the share of the processors that the
        threads of the run used or waited for.
    """
    from testbed.emulation.machine.load_monitor import load_between, read_counts

    times_s = []
    before = read_counts()
    for _ in range(repeat):
        group.barrier()
        start_s = time.monotonic()
        once()
        group.barrier()
        times_s.append(time.monotonic() - start_s)
    load = load_between(before, read_counts(), ())
    return {"seconds": times_s, "cpu_fraction": load.cpu_fraction}


def main(argument: str) -> None:
    """Run one rank.

    Args:
        argument: JSON with the name of the file, the fields of the access, and the path of the
            report.
    """
    from sfio_emu.client.current_session import current_session
    from sfio_emu.views.mpi_file import MpiFile

    requested = json.loads(argument)
    access = FragmentedAccess(**requested["access"])
    group = current_session().group
    content = file_content(access.bytes_each * group.size, access.seed)
    data = _share(content, access, group.rank, group.size)
    if access.operation == "write":
        buffer = _laid_out(data, access)
    else:
        buffer = np.zeros(2 * len(data), dtype=np.uint8)
    memory = _memory_type(access)
    with MpiFile.open(requested["name"], access.stripe_unit) as file:
        _set_view(file, access, group)
        call = file.write_at if access.operation == "write" else file.read_at

        def in_one_call() -> None:
            call(0, buffer, memory)

        def piece_by_piece() -> None:
            piece = access.piece_bytes
            step = 2 * piece if access.in_memory else piece
            for number in range(access.pieces):
                call(number * piece, buffer[number * step : number * step + piece])

        # A rehearsal, so that everything is compiled when the clock starts.
        in_one_call()
        group.barrier()
        once = in_one_call if access.at_once else piece_by_piece
        report = timed_repeats(group, access.repeat, once)
    right = access.operation == "write" or bool(np.array_equal(_taken(buffer, access), data))
    every_right = group.all_gather(json.dumps(right).encode())
    if group.rank == 0:
        report["right"] = all(map(json.loads, every_right))
        Path(requested["told"]).write_text(json.dumps(report))


def _set_view(file: MpiFile, access: FragmentedAccess, group: ProcessGroup) -> None:
    """Set the view of the file to the bytes of this process."""
    from sfio_emu.views.datatypes import BYTE, contiguous, resized

    piece = access.piece_bytes
    if access.in_file:
        filetype = resized(contiguous(piece, BYTE), 0, group.size * piece)
        file.set_view(group.rank * piece, BYTE, filetype)
    else:
        file.set_view(group.rank * access.bytes_each, BYTE)


def _memory_type(access: FragmentedAccess) -> Datatype:
    """Return the MPI datatype of the memory."""
    from sfio_emu.views.datatypes import BYTE, contiguous, vector

    if access.in_memory:
        return vector(access.pieces, access.piece_bytes, 2 * access.piece_bytes, BYTE)
    return contiguous(access.pieces * access.piece_bytes, BYTE)


def _share(content: Bytes, access: FragmentedAccess, rank: int, processes: int) -> Bytes:
    """Return the bytes of a process, in the order of the file, shape (bytes_each,)."""
    if not access.in_file:
        return content[rank * access.bytes_each : (rank + 1) * access.bytes_each]
    table = content.reshape(access.pieces, processes, access.piece_bytes)
    return np.ascontiguousarray(table[:, rank, :]).ravel()


def _laid_out(data: Bytes, access: FragmentedAccess) -> Bytes:
    """Return the memory that contains the data: in pieces with gaps, or contiguously."""
    if not access.in_memory:
        return np.ascontiguousarray(data)
    memory = np.zeros((access.pieces, 2 * access.piece_bytes), dtype=np.uint8)
    memory[:, : access.piece_bytes] = data.reshape(access.pieces, access.piece_bytes)
    return memory.ravel()


def _taken(memory: Bytes, access: FragmentedAccess) -> Bytes:
    """Return the data that the memory contains, the reverse of ``_laid_out``."""
    if not access.in_memory:
        return memory[: access.bytes_each]
    pieces = memory.reshape(access.pieces, 2 * access.piece_bytes)
    return pieces[:, : access.piece_bytes].ravel()


if __name__ == "__main__":
    main(sys.argv[1])
