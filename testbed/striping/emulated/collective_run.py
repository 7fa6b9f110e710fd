"""A collective access by MPI-I/O views as a program of real processes on a network of real switches: the columns of a
matrix, with or without two-phase buffering; how long it took, and how many bytes crossed the links of the compute
nodes."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from testbed.errors import InvalidRunError
from testbed.model.machine.load import overload_message
from testbed.striping.emulated.program_run import ProgramNetwork
from testbed.striping.emulated.scratch_folders import scratch_folder
from testbed.striping.oracle import Bytes, file_content, verified_subfiles, write_subfiles
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


class TimedAccess(Protocol):
    """What every rank's program is told, as keys."""

    @property
    def operation(self) -> Literal["write", "read"]: ...
    @property
    def stripe_unit(self) -> int: ...


def run_collective(placement: Placement, access: CollectiveAccess) -> JsonObject:
    """Inside the sandbox: as `run_access`, and `crossed`: bytes over the compute nodes' links, in the direction of
    the data, for one repetition, all frames; `payload`: what connections carried of it, each byte once."""
    content = file_content(access.side**2 * 8, access.seed)
    module = "testbed.striping.emulated.collective_rank"
    found = run_access(placement, module, access, asdict(access), content, timeout_s=PATIENCE_S)
    return found | {name: found[name] / access.repeat for name in ("crossed", "payload")}


def run_access(
    placement: Placement,
    module: str,
    access: TimedAccess,
    requested: JsonObject,
    content: Bytes,
    *,
    timeout_s: float = 2.0,
) -> JsonObject:
    """What rank 0 of the module's program tells, with `verified`, and `invalid`: why the run says nothing, or None.
    `content`: of the file, written by it or before it. Raises InvalidRunError where the program fails."""
    with scratch_folder(Path.cwd()) as root:
        with ProgramNetwork(placement, root, timeout_s=timeout_s) as network:
            for node in placement.io:
                (root / node / "data").touch()
            before = np.zeros_like(content) if access.operation == "write" else content
            write_subfiles(before, root, placement, access.stripe_unit)
            reported = _run(network, module, requested)
        verified = verified_subfiles(content, root, placement, access.stripe_unit)
    limit = UNCOORDINATED_LIMITS.cpu_fraction or 1.0
    busy = f"its threads had or wanted its processors for {reported['cpu_fraction']:.0%} of the time"
    invalid = overload_message(busy) if reported["cpu_fraction"] >= limit else None
    return reported | {"verified": bool(reported["right"] and verified), "invalid": invalid}


def _run(network: ProgramNetwork, module: str, requested: JsonObject) -> JsonObject:
    """What rank 0 tells of the program's one run."""
    answer = network.root / "told.json"
    argument = {"told": str(answer), "name": network.placement.file_name(), "access": requested}
    end = network.run([sys.executable, "-m", module, json.dumps(argument)], time_limit_s=90)
    if end.exit_code:
        raise InvalidRunError(f"rank {end.rank} of the access ended with exit code {end.exit_code}")
    return dict(json.loads(answer.read_text()))
