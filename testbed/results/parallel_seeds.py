"""Seeds of a simulation over the machine's cores: one process a core, this one among them; rows in the order of the
seeds."""

import multiprocessing
import os
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from queue import SimpleQueue
from threading import Lock

from testbed.emulation.sandbox.process_lifetime import children_without_interrupts, interrupts_after
from testbed.interconnect.plan import Experiment
from testbed.interconnect.simulation_plan import run_seed
from topologies.text.json_types import JsonObject

FEW_MESSAGES = 200_000


def run_seeds(experiment: Experiment, seeds: Sequence[int], *, processes: int | None = None) -> list[JsonObject]:
    """The rows of all seeds, on so many processes (None: one a core). The first runs here (it fills the cache of
    compiled code); small runs all do."""
    processes = processes or os.cpu_count() or 1
    first, rest = seeds[0], seeds[1:]
    rows = [run_seed(experiment, first)]
    if not rest:
        return rows
    if processes < 2 or sum(row["packet_hops"] for row in rows) * len(rest) < 10 * FEW_MESSAGES:
        return rows + [run_seed(experiment, seed) for seed in rest]
    return rows + _shared(experiment, rest, min(processes, len(rest)))


def _shared(experiment: Experiment, seeds: Sequence[int], processes: int) -> list[JsonObject]:
    """The rows of the seeds, each taken by whoever is idle: this process, or one of the others, whose start takes a
    second each."""
    waiting = deque(enumerate(seeds))
    ended: SimpleQueue[tuple[int, JsonObject | BaseException]] = SimpleQueue()
    rows: dict[int, JsonObject] = {}
    handing_out = Lock()
    with children_without_interrupts(), ExitStack() as until_done:
        with interrupts_after():
            pool = until_done.enter_context(multiprocessing.get_context("spawn").Pool(processes - 1))

        def hand_out() -> None:
            with handing_out, suppress(IndexError):
                place, seed = waiting.popleft()
                end = partial(end_at, place)
                pool.apply_async(run_seed, (experiment, seed), callback=end, error_callback=end)

        def end_at(place: int, result: JsonObject | BaseException) -> None:
            if isinstance(result, BaseException):
                hand_out_no_more()
            hand_out()
            ended.put((place, result))

        def hand_out_no_more() -> None:
            with handing_out:
                waiting.clear()

        until_done.callback(
            hand_out_no_more
        )  # before the pool ends, whatever ends it: requested more then, it would never end

        for _ in range(processes - 1):
            hand_out()
        while waiting:
            with suppress(IndexError):
                place, seed = waiting.popleft()
                rows[place] = run_seed(experiment, seed)
        while len(rows) < len(seeds):
            place, result = ended.get()
            if isinstance(result, BaseException):
                raise result
            rows[place] = result
    return [rows[place] for place in range(len(seeds))]
