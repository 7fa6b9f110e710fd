"""Seeds shared between this process and others: the same rows in the same order, and an error of one is an error of
all."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import InputError
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.plan import Experiment
from testbed.results import parallel_seeds
from testbed.results.parallel_seeds import run_seeds
from topologies import load_network

SMALL = Experiment(
    network=load_network("ring:4"),
    parameters=SimulationParameters(model="thesis"),
    rate_per_s=20_000.0,
    warm_up_s=0.0,
    duration_s=0.001,
)


@pytest.fixture
def even_small_runs_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_seeds, "FEW_MESSAGES", 0)


@pytest.mark.usefixtures("even_small_runs_are_shared")
def test_parallel_seeds_give_the_rows_of_one_process_in_order() -> None:
    seeds = range(3, 10)
    assert run_seeds(SMALL, seeds, processes=2) == run_seeds(SMALL, seeds, processes=1)


def refuses_later_seeds(experiment: Experiment, seed: int) -> dict[str, Any]:
    if seed > 0 and multiprocessing.parent_process() is not None:
        raise InputError(f"seed {seed} is refused")
    return {"packet_hops": 1}


@pytest.mark.usefixtures("even_small_runs_are_shared")
def test_a_seed_that_fails_in_another_process_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_seeds, "run_seed", refuses_later_seeds)
    for _ in range(2):  # more seeds wait than processes take at once
        with pytest.raises(InputError, match="is refused"):
            run_seeds(SMALL, range(12), processes=2)


_KILLED = """
import multiprocessing, os, signal, threading, time
from testbed.errors import CapabilityError
from testbed.results import parallel_seeds

def slow(experiment, seed):
    time.sleep(60)

def kill():
    os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)

if __name__ == "__main__":
    parallel_seeds.run_seed = slow
    threading.Timer(1.0, kill).start()
    try:
        parallel_seeds._run_in_pool(None, [1, 2], 2)
    except CapabilityError as error:
        print(error)
"""


def test_killed_process_ends_all(tmp_path: Path) -> None:
    """A pool of multiprocessing would wait for ever."""
    script = tmp_path / "killed.py"
    script.write_text(_KILLED)
    done = subprocess.run(
        [sys.executable, "-P", str(script)], capture_output=True, text=True, timeout=50, check=True
    )
    assert done.stdout.startswith("a process that simulates was killed")
