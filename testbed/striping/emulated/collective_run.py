"""A collective access by MPI-I/O views as a program of real processes on a network of real switches: the columns of a
matrix, with or without two-phase buffering; how long it took, and how many bytes crossed the links of the compute
nodes."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from testbed.errors import InvalidRunError
from testbed.model.machine.load import overload_message
from testbed.striping.emulated.program_run import ProgramNetwork
from testbed.striping.emulated.scratch_folders import scratch_folder
from testbed.striping.oracle import file_content, verified_subfiles, write_subfiles
from testbed.striping.overload import UNCOORDINATED_LIMITS
from testbed.striping.placement import Placement
from topologies.text.json_types import JsonObject

PATIENCE_S = 15.0
"""Until a silent listener is given up: where nobody orders the transfers, packets wait for seconds in the queues of 8
nodes."""


@dataclass(frozen=True, kw_only=True)
class CollectiveAccess:
    """The columns of a square matrix of 8-byte elements, `side` of them, in `stripe_unit` bytes; a band for each
    process.

    `hints`: as MPI has them (`collective_buffering`); `repeat`: times that the operation is carried out.
    """

    side: int
    stripe_unit: int
    operation: Literal["write", "read"]
    hints: Mapping[str, str]
    repeat: int
    seed: int


def run_collective(placement: Placement, access: CollectiveAccess) -> JsonObject:
    """Inside the sandbox: `seconds` of every repetition, `verified`, `crossed`: bytes over the links of the compute
    nodes, in the direction of the data, for one repetition, all frames; `payload`: what connections carried of it, each
    byte once; `invalid`: why the run says nothing, or None.

    Raises InvalidRunError where the program fails.
    """
    content = file_content(access.side**2 * 8, access.seed)
    with scratch_folder(Path.cwd()) as root:
        with ProgramNetwork(placement, root, timeout_s=PATIENCE_S) as network:
            for node in placement.io:
                (root / node / "data").touch()
            before = np.zeros_like(content) if access.operation == "write" else content
            write_subfiles(before, root, placement, access.stripe_unit)
            reported = _format(network, access)
        verified = verified_subfiles(content, root, placement, access.stripe_unit)
    limit = UNCOORDINATED_LIMITS.cpu_fraction or 1.0
    busy = f"its threads had or wanted its processors for {reported['cpu_fraction']:.0%} of the time"
    return {
        "seconds": reported["seconds"],
        "verified": bool(reported["right"] and verified),
        "crossed": reported["crossed"] / access.repeat,
        "payload": reported["payload"] / access.repeat,
        "cpu_fraction": reported["cpu_fraction"],
        "invalid": overload_message(busy) if reported["cpu_fraction"] >= limit else None,
    }


def _format(network: ProgramNetwork, access: CollectiveAccess) -> JsonObject:
    """What rank 0 tells of the program's one run."""
    answer = network.root / "told.json"
    requested = {
        "told": str(answer),
        "name": network.placement.file_name(),
        "stripe_unit": access.stripe_unit,
        "side": access.side,
        "operation": access.operation,
        "hints": dict(access.hints),
        "repeat": access.repeat,
        "seed": access.seed,
    }
    words = [sys.executable, "-m", "testbed.striping.emulated.collective_rank", json.dumps(requested)]
    end = network.run(words, time_limit_s=60)
    if end.exit_code:
        raise InvalidRunError(f"rank {end.rank} of the collective access ended with exit code {end.exit_code}")
    return dict(json.loads(answer.read_text()))
