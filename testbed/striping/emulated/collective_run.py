"""An access by MPI-I/O as a program of real processes on a network of real switches, timed."""

import json
import sys
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from testbed.errors import InvalidRunError
from testbed.model.machine.load import overload_message
from testbed.striping.emulated.program_run import ProgramNetwork
from testbed.striping.emulated.scratch_folders import scratch_folder
from testbed.striping.oracle import Bytes, verified_subfiles, write_subfiles
from testbed.striping.overload import UNCOORDINATED_LIMITS
from testbed.striping.placement import Placement
from topologies.text.json_types import JsonObject


class TimedAccess(Protocol):
    """What every rank's program is told, as keys."""

    @property
    def operation(self) -> Literal["write", "read"]: ...
    @property
    def stripe_unit(self) -> int: ...


def run_access(
    placement: Placement,
    module: str,
    access: TimedAccess,
    requested: JsonObject,
    content: Bytes,
) -> JsonObject:
    """What rank 0 of the module's program tells, with `verified`, and `invalid`: why the run says nothing, or None.
    `content`: of the file, written by it or before it. Raises InvalidRunError where the program fails."""
    with scratch_folder(Path.cwd()) as root:
        with ProgramNetwork(placement, root) as network:
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
