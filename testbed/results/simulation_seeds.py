"""Seeds of a simulation over the machine's cores: one process a core, rows in the order of the seeds."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from testbed.emulation.sandbox.process_life import children_without_interrupts, interrupts_after
from testbed.interconnect.experiment import Experiment, run_seed

FEW_MESSAGES = 200_000


def run_seeds(experiment: Experiment, seeds: Sequence[int], *, processes: int) -> list[dict[str, Any]]:
    """The rows of all seeds. The first runs here (it fills the cache of compiled code); small runs all do."""
    first, rest = seeds[0], seeds[1:]
    rows = [run_seed(experiment, first)]
    if not rest:
        return rows
    if processes < 2 or sum(row["packet_hops"] for row in rows) * len(rest) < 10 * FEW_MESSAGES:
        return rows + [run_seed(experiment, seed) for seed in rest]
    context = multiprocessing.get_context("spawn")
    with children_without_interrupts(), ExitStack() as until_done:
        with interrupts_after():
            pool = until_done.enter_context(context.Pool(min(processes, len(rest))))
        return rows + pool.map(partial(run_seed, experiment), rest, chunksize=1)
