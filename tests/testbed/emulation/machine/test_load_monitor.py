"""What a gauge makes of the kernel's counts, from folders that stand for /proc; and that it reads this machine's
own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.emulation.machine.load_monitor import (
    LoadMonitor,
    MachineCounts,
    ProcessorTimes,
    busy_fraction,
    load_between,
    processor_times,
    read_counts,
    steal_fraction,
)
from testbed.model.machine.load import MachineLoadLimits, overload_reason
from tests.helpers.strains import CALM

TICKS = os.sysconf("SC_CLK_TCK")
STAT = "cpu  {user} 20 30 {idle} 50 6 7 {stolen} 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nintr 5\n"


def make_proc(
    folder: Path, *, user: int, idle: int, stolen: int, stalled_us: int | None = 1_000_000
) -> Path:
    """A folder as /proc is: counts of all processors, and one native program of two threads beside a Python program."""
    folder.mkdir()
    (folder / "stat").write_text(STAT.format(user=user, idle=idle, stolen=stolen))
    if stalled_us is not None:
        (folder / "pressure").mkdir()
        (folder / "pressure/cpu").write_text(
            f"some avg10=0.00 avg60=0.00 avg300=0.00 total={stalled_us}\n"
        )
    return folder


def make_task(proc: Path, number: int, program: str, threads: dict[int, tuple[int, int]]) -> None:
    """A process with its threads' (user, system) ticks; its name has the bracket and the space that a name may have."""
    entry = proc / str(number)
    entry.mkdir()
    (entry / "exe").symlink_to(f"/usr/bin/{program}")
    total = tuple(map(sum, zip(*threads.values(), strict=True)))
    for folder, (user, system) in (
        (entry, total),
        *((entry / "task" / str(n), t) for n, t in threads.items()),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        fields = ["S", "1", *["0"] * 9, str(user), str(system), *["0"] * 30]
        (folder / "stat").write_text(f"{number} ({program}) 2) {' '.join(fields)}\n")


def test_processors_are_busy_with_all_but_idling_and_waiting_for_disks(tmp_path: Path) -> None:
    first = processor_times(make_proc(tmp_path / "first", user=100, idle=1000, stolen=8))
    assert first == ProcessorTimes(
        busy=100 + 20 + 30 + 6 + 7 + 8, total=100 + 20 + 30 + 1000 + 50 + 6 + 7 + 8, stolen=8
    )
    later = processor_times(make_proc(tmp_path / "later", user=130, idle=1050, stolen=28))
    assert busy_fraction(first, later) == 0.5, "50 of 100 ticks, 20 of them stolen"
    assert steal_fraction(first, later) == 0.2
    assert busy_fraction(first, first) == steal_fraction(first, first) == 0.0


def counts(proc: Path, at_s: float) -> MachineCounts:
    return replace(read_counts(proc), at_s=at_s)


def test_threads_count_as_tasks_but_python_threads_as_one(
    tmp_path: Path,
) -> None:
    before = make_proc(tmp_path / "before", user=0, idle=0, stolen=0)
    after = make_proc(tmp_path / "after", user=100, idle=100, stolen=0, stalled_us=1_500_000)
    make_task(before, 7, "ovs-vswitchd", {7: (5, 5), 8: (0, 0)})
    make_task(before, 9, "python3.11", {9: (0, 0), 10: (0, 0)})
    make_task(after, 7, "ovs-vswitchd", {7: (5 + TICKS, 5 + TICKS), 8: (TICKS, 0)})
    make_task(after, 9, "python3.11", {9: (TICKS, 0), 10: (TICKS // 2, 0)})
    strain = load_between(counts(before, 10.0), counts(after, 14.0), [0.001, 0.003])
    assert (strain.busiest_task, strain.busiest_task_fraction) == ("ovs-vswitchd", 0.5), (
        "thread 7: 2 s of 4"
    )
    assert strain.pressure_fraction == pytest.approx(0.125)
    assert (strain.mean_lateness_s, strain.worst_lateness_s) == (pytest.approx(0.002), 0.003)
    make_task(after, 11, "python3.11", {11: (2 * TICKS, 0), 12: (2 * TICKS, 0)})
    strain = load_between(counts(before, 10.0), counts(after, 14.0), [])
    assert (strain.busiest_task, strain.busiest_task_fraction) == ("python3.11", 1.0), (
        "new, two threads, one task"
    )
    assert (strain.mean_lateness_s, strain.worst_lateness_s) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("ran_ms", "waited_ms", "wanted"),
    [(400, 0, 0.2), (400, 800, 0.6), (2000, 0, 1.0), (900, 5000, 1.0)],
    ids=["others give way", "others do not", "alone", "far too many"],
)
def test_busy_is_what_the_run_had_or_waited_for(
    tmp_path: Path, ran_ms: int, waited_ms: int, wanted: float
) -> None:
    """All processors are busy all the time, 2 s of one; what the run's own thread says decides whether that hindered
    it."""
    before = make_proc(tmp_path / "before", user=0, idle=0, stolen=0)
    after = make_proc(tmp_path / "after", user=2 * TICKS, idle=0, stolen=0)
    for proc, ran, waited in ((before, 50, 7), (after, 50 + ran_ms, 7 + waited_ms)):
        make_task(proc, 7, "ovs-vswitchd", {7: (0, 0)})
        (proc / "7/task/7/schedstat").write_text(f"{ran * 10**6} {waited * 10**6} 12\n")
    assert load_between(counts(before, 1.0), counts(after, 3.0), []).cpu_fraction == pytest.approx(
        wanted
    )
    (after / "7/task/7/schedstat").unlink()
    assert load_between(counts(before, 1.0), counts(after, 3.0), []).cpu_fraction == 1.0, (
        "all busy time, untold"
    )


def test_a_kernel_without_pressure_figures_tells_no_stalls(tmp_path: Path) -> None:
    found = counts(make_proc(tmp_path / "old", user=1, idle=1, stolen=0, stalled_us=None), 0.0)
    assert found.stalled_s is None
    strain = load_between(found, replace(found, at_s=1.0), [])
    assert strain.pressure_fraction is None and strain.busiest_task == "", "no task at all either"


def test_the_gauge_reads_this_machine_and_rests_itself() -> None:
    spin = "import time\nwhile time.process_time() < 0.3: pass\nprint('spun', flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", spin], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        before_s, began_s = time.process_time(), time.monotonic()
        with LoadMonitor() as gauge:
            assert process.stdout is not None and process.stdout.readline() == b"spun\n"
            time.sleep(0.05)
            spent_s = read_counts().task_s
        own_s, wall_s = time.process_time() - before_s, time.monotonic() - began_s
        process.communicate(b"\n")
    (seconds,) = [
        s
        for (name, number), s in spent_s.items()
        if number == process.pid and name.startswith("python")
    ]
    assert 0.28 <= seconds < 0.6, (
        "it stopped when it had had 0.3 s of a processor, however long that took"
    )
    strain = gauge.strain
    assert strain is not None and strain.busiest_task_fraction > 0
    assert 0 < strain.cpu_fraction <= 1 and 0 <= strain.stolen_fraction <= strain.cpu_fraction
    assert 0 < strain.mean_lateness_s <= strain.worst_lateness_s, (
        "no thread wakes at the very moment"
    )
    assert own_s < 0.2 + 0.1 * wall_s, "the gauge itself rests"


@pytest.mark.parametrize(
    ("field", "limit", "words"),
    [
        ("stolen_fraction", 0.2, "other machines had 20% of its processors (limit 20%)"),
        ("worst_lateness_s", 0.03, "it stood still for 30 ms of 2.00 s"),
        ("mean_lateness_s", 0.0015, "a thread woke 1.5 ms late on average"),
        ("cpu_fraction", 0.95, "its processors were busy for 95% of the time"),
        ("busiest_task_fraction", 0.9, "its busiest task ran for 90% of the time"),
    ],
)
def test_load_names_figures_at_their_limit_and_ignores_unlimited_ones(
    field: str, limit: float, words: str
) -> None:
    strained = replace(CALM, **{field: limit})
    limits = MachineLoadLimits(**{field: limit})
    assert overload_reason([strained], limits, 2.0) == (
        f"the machine could not keep up: {words}; lower --link-rate, or leave the machine to this run"
    )
    assert overload_reason([replace(CALM, **{field: limit * 0.99})], limits, 2.0) is None
    assert overload_reason([strained], MachineLoadLimits(), 2.0) is None
    assert overload_reason([CALM, strained, CALM], limits, 2.0) is None, (
        "the median of several runs counts"
    )
