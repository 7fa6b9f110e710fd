"""Runs a simulation with several seeds in parallel, with one process for each core."""

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

# Simulations of fewer messages, with some ten hops each, are not worth the start of processes.
FEW_MESSAGES = 200_000
# Seconds between two checks whether all processes are alive.
_CHECK_INTERVAL_S = 0.5


def run_seeds(
    experiment: Experiment, seeds: Sequence[int], *, processes: int | None = None
) -> list[JsonObject]:
    """Return the row of each seed, in the order of the seeds.

    The first seed runs in this process, so that it fills the cache of compiled code. If the
    simulation is small, all seeds run here.

    Args:
        experiment: The simulation.
        seeds: The seeds.
        processes: Number of processes. None: one for each core.
    """
    processes = processes or len(os.sched_getaffinity(0))
    first_row = run_seed(experiment, seeds[0])
    remaining = seeds[1:]
    if not remaining:
        return [first_row]
    is_small = first_row["packet_hops"] * len(remaining) < 10 * FEW_MESSAGES
    if processes < 2 or is_small:
        return [first_row, *(run_seed(experiment, seed) for seed in remaining)]
    return [first_row, *_run_in_pool(experiment, remaining, min(processes, len(remaining)))]


def _run_in_pool(experiment: Experiment, seeds: Sequence[int], processes: int) -> list[JsonObject]:
    """Return the rows of the seeds. Each is run by an idle process. The first error ends all.

    Raises:
        CapabilityError: A process was killed. The pool itself would wait for its row permanently.
    """
    with spawned_children(), ExitStack() as stack:
        other_children = multiprocessing.active_children()
        # An interrupt during the start of the processes would leave some of them behind.
        with interrupts_after():
            pool = stack.enter_context(multiprocessing.get_context("spawn").Pool(processes))
        children = multiprocessing.active_children()
        workers = [child for child in children if child not in other_children]
        results = pool.imap(partial(run_seed, experiment), seeds)
        rows: list[JsonObject] = []
        while len(rows) < len(seeds):
            try:
                rows.append(results.next(timeout=_CHECK_INTERVAL_S))
            except multiprocessing.TimeoutError:
                if not all(worker.is_alive() for worker in workers):
                    raise CapabilityError(
                        "a process that simulates was killed; the machine may be out of memory: "
                        "end other programs, or ask for fewer seeds"
                    ) from None
        return rows
