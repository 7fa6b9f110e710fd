"""Seeds of a simulation over the machine's cores: one process a core; rows in the order of the seeds."""

import multiprocessing
import os
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

from testbed.emulation.sandbox.process_lifetime import interrupts_after, spawned_children
from testbed.errors import CapabilityError
from testbed.interconnect.plan import Experiment
from testbed.interconnect.simulation import run_seed
from topologies import JsonObject

FEW_MESSAGES = 200_000
# Time between two looks whether all processes live.
_LOOK_S = 0.5


def run_seeds(
    experiment: Experiment, seeds: Sequence[int], *, processes: int | None = None
) -> list[JsonObject]:
    """Return the rows of all seeds, computed by this number of processes (None: one per core).

    The first seed runs in this process, which fills the cache of compiled code. All small runs do.
    """
    processes = processes or len(os.sched_getaffinity(0))
    first, rest = seeds[0], seeds[1:]
    rows = [run_seed(experiment, first)]
    if not rest:
        return rows
    if processes < 2 or sum(row["packet_hops"] for row in rows) * len(rest) < 10 * FEW_MESSAGES:
        return rows + [run_seed(experiment, seed) for seed in rest]
    return rows + _shared(experiment, rest, min(processes, len(rest)))


def _shared(experiment: Experiment, seeds: Sequence[int], processes: int) -> list[JsonObject]:
    """Return the rows of the seeds, each taken by whichever process is idle; the first error ends all.

    Raises:
        CapabilityError: A process has died. Its pool would wait for the row for ever.
    """
    with spawned_children(), ExitStack() as until_done:
        before = multiprocessing.active_children()
        with interrupts_after():
            pool = until_done.enter_context(multiprocessing.get_context("spawn").Pool(processes))
        workers = [child for child in multiprocessing.active_children() if child not in before]
        results = pool.imap(partial(run_seed, experiment), seeds)
        rows: list[JsonObject] = []
        while len(rows) < len(seeds):
            try:
                rows.append(results.next(timeout=_LOOK_S))
            except multiprocessing.TimeoutError:
                if not all(worker.is_alive() for worker in workers):
                    raise CapabilityError(
                        "a process that simulates was killed; the machine may be out of memory: "
                        "end other programs, or ask for fewer seeds"
                    ) from None
        return rows
