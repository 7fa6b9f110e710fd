"""Measures how set-up, processor time, memory and rules grow with switches, on several machines.

    python benchmarks/scale/bench_scale.py --sizes 115,250,500,1000,2000 --machines 1,2,4 --runs 3
    [--before DIR] [--rows FILE]

The default sizes are small. The networks are mobile, with one host per switch. They have one stream
between the first host and the one that is farthest from it. The rules of the stream are installed,
but no packet is sent. Machines are namespaces of this one, and share its processors. With
``--before``, another checkout is run in turn with this one.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from sweep_scale import farthest

# Programs by a part of their command line.
PROGRAMS = {
    "openflow_controller": "controller",
    "namespace_holder": "hosts",
    "ovs-vswitchd": "switch daemons",
    "ovsdb-server": "databases",
    "python": "testbed",
}
# Fields of /proc/meminfo with memory of the kernel.
KERNEL_FIELDS = ("SUnreclaim", "KernelStack", "PageTables", "Percpu")
# How a run ends if nothing goes wrong.
COMPLETE = "whole"
HEADER = (
    f"{'switches':>8} {'machines':>8} {'code':7} {'runs':>4} {'set-up s':>9} {'least':>6} "
    f"{'most':>6} {'cpu s':>6} {'daemons':>8} {'rules':>7} {'in s':>5} {'ctl cpu':>7} "
    f"{'MB each':>8} {'kernel MB':>9} {'down s':>6} {'load':>5}"
)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    if arguments.inside:
        size, machines, plan = arguments.inside
        print(json.dumps(measure(int(size), int(machines), Path(plan))))
        return 0
    checkouts = {}
    if arguments.before:
        checkouts["before"] = arguments.before.resolve()
    checkouts["now"] = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory() as folder:
        plans = arguments.plans or Path(folder)
        plans.mkdir(parents=True, exist_ok=True)
        print(HEADER, flush=True)
        for size in map(int, arguments.sizes.split(",")):
            plan = write_plan(size, plans)
            for machines in map(int, arguments.machines.split(",")):
                compare(size, machines, plan, checkouts, arguments)
    return 0


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    summary = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--sizes", default="60,130", help="numbers of switches")
    parser.add_argument("--machines", default="1,2", help="numbers of machines")
    parser.add_argument("--runs", type=int, default=1, help="number of runs (default 1)")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one run")
    parser.add_argument("--before", type=Path, metavar="DIR", help="another checkout")
    parser.add_argument(
        "--rows", type=Path, help="file to which a JSON object is appended for each run"
    )
    parser.add_argument(
        "--plans",
        type=Path,
        help="folder for the plans, which are used again: planning 2000 switches takes a minute",
    )
    parser.add_argument(
        "--by",
        default="",
        metavar="COMMAND",
        help="command that starts each run, for example 'nice -n -10'",
    )
    # The size, the machines and the plan that a child process measures.
    parser.add_argument("--inside", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def compare(
    size: int,
    machines: int,
    plan: Path,
    checkouts: Mapping[str, Path],
    arguments: argparse.Namespace,
) -> None:
    """Measure a size with each checkout in turn, and print a line of medians for each.

    Args:
        size: Number of switches.
        machines: Number of machines.
        plan: File with the plan.
        checkouts: Folders of the checkouts by name.
        arguments: Arguments of the command.
    """
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in checkouts}
    for _ in range(arguments.runs):
        for name, folder in checkouts.items():
            row: dict[str, Any] = {"code": name, "switches": size, "machines": machines}
            row |= measure_in_sandbox(size, machines, plan, folder, arguments)
            rows[name].append(row)
            if arguments.rows:
                with arguments.rows.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    for name, rows_of_checkout in rows.items():
        print(line_of(name, rows_of_checkout), flush=True)


def write_plan(size: int, folder: Path) -> Path:
    """Write the network, the ends and the rules of a stream into a file, and return its path.

    An existing file is used again.
    """
    from testbed.model.wiring import wire
    from testbed.openflow.rules import split_rules
    from testbed.stream.workload import stream_plan
    from topologies import load_network

    path = folder / f"manet-3-{size}.pickle"
    if not path.exists():
        name = f"manet:seed=3,nodes={size}"
        network = load_network(name)
        ends = farthest(network)
        start_s = time.process_time()
        plan = stream_plan(network, *ends, rate_pps=200, faults=(), duration_s=4.0)
        rules, _ = split_rules(wire(network, ends), plan.forward, plan.backward)
        plan_s = time.process_time() - start_s
        path.write_bytes(pickle.dumps((name, ends, rules, plan_s)))
    return path


def measure_in_sandbox(
    size: int, machines: int, plan: Path, checkout: Path, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Measure a network in a process in a sandbox.

    Args:
        size: Number of switches.
        machines: Number of machines.
        plan: File with the plan.
        checkout: Folder of the packages.
        arguments: Arguments of the command.

    Returns:
        The figures, and how the run ended.
    """
    from testbed.emulation.sandbox.sandbox import sandbox_command

    program = [sys.executable, str(Path(__file__).resolve())]
    inner = [*program, "--inside", str(size), str(machines), str(plan)]
    try:
        process = subprocess.run(
            [*arguments.by.split(), *sandbox_command(inner, die_with_parent=True)],
            env={**os.environ, "PYTHONPATH": str(checkout)},
            capture_output=True,
            text=True,
            timeout=arguments.limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"ended": f"not up after {arguments.limit:g} s"}
    if process.returncode:
        error_lines = process.stderr.strip().splitlines()
        return {"ended": error_lines[-1] if error_lines else f"exit code {process.returncode}"}
    figures: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return {**figures, "ended": COMPLETE}


def measure(size: int, machines: int, plan: Path) -> dict[str, Any]:
    """Set a network up, install its rules, and take it down; inside a sandbox."""
    from testbed.machines.adapters.cluster import machines_up
    from testbed.machines.adapters.distributed_network import distributed_network, placement_of
    from testbed.machines.machines_request import MachinesRequest
    from testbed.model.wiring import wire
    from topologies import load_network

    name, ends, rules, plan_s = pickle.loads(plan.read_bytes())
    wiring = wire(load_network(name), ends)
    request = MachinesRequest(count=machines)
    with machines_up(request) as cluster:
        placement = placement_of(cluster, wiring, request)
        before = current_usage()
        clock = Stopwatch()
        with distributed_network(cluster, wiring, placement, **talking_hosts(ends)) as network:
            set_up_s = clock.lap_s()
            after_set_up = current_usage()
            clock.lap_s()
            network.install(rules, 1)
            rules_s = clock.lap_s()
            after_rules = current_usage()
            steps = getattr(network, "setup_seconds", ())
            clock.lap_s()
        down_s = clock.lap_s()
    return {
        "load": round(os.getloadavg()[0], 1),
        "cables": len(wiring.cables),
        "crossing": len(placement.crossing(wiring)),
        "plan_cpu_s": round(plan_s, 1),
        "rules": len(rules),
        "set_up_s": round(set_up_s, 2),
        "steps_s": longest_steps(steps),
        "set_up_cpu_s": processor_time_between(before, after_set_up),
        "rules_s": round(rules_s, 2),
        "controllers_cpu_s": round(after_rules.processor_s.get("controller", 0.0), 2),
        "mb_of_each": other_machines_mb(after_rules),
        "mb_before_of_each": other_machines_mb(before),
        "kernel_mb": round(after_set_up.kernel_mb - before.kernel_mb),
        "down_s": round(down_s, 2),
    }


class Usage(NamedTuple):
    """The memory and processor time that programs and the kernel have used so far.

    Attributes:
        memory_mb: Memory of each process namespace (machine) in megabytes.
        processor_s: Processor time of each program in seconds.
        kernel_mb: Memory of the kernel in megabytes.
    """

    memory_mb: Mapping[str, float]
    processor_s: Mapping[str, float]
    kernel_mb: float


def current_usage() -> Usage:
    """Return what programs and the kernel have used so far."""
    return Usage(memory_mb(), processor_s(), kernel_mb())


def processor_time_between(before: Usage, after: Usage) -> dict[str, float]:
    """Return the processor time between two moments by program, in seconds, and their sum."""
    used_s = {}
    for program, seconds in after.processor_s.items():
        used_s[program] = round(seconds - before.processor_s.get(program, 0.0), 2)
    return {**used_s, "all": round(sum(used_s.values()), 2)}


class Stopwatch:
    """Measures the time between laps."""

    def __init__(self) -> None:
        self._start_s = time.monotonic()

    def lap_s(self) -> float:
        """Return the seconds since the previous lap, and begin the next one."""
        now_s = time.monotonic()
        lap_s = now_s - self._start_s
        self._start_s = now_s
        return lap_s


def talking_hosts(ends: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the option that names the hosts of the stream; older checkouts do not have it."""
    from testbed.machines.adapters.rpc_network import PartitionSpec

    has_option = "talking" in {field.name for field in fields(PartitionSpec)}
    return {"talking": ends} if has_option else {}


def longest_steps(steps: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the longest duration of each step of set-up over all machines, in seconds."""
    longest = {}
    for step in steps[0] if steps else ():
        longest[step] = round(max(machine_steps[step] for machine_steps in steps), 2)
    return longest


def other_machines_mb(usage: Usage) -> list[int]:
    """Return the memory of each machine except this process namespace, in ascending order."""
    this_space = str(Path("/proc/self/ns/pid").readlink())
    return sorted(round(mb) for space, mb in usage.memory_mb.items() if space != this_space)


def memory_mb() -> dict[str, float]:
    """Return the memory of each process namespace (machine), in megabytes.

    Shared pages are divided among the processes that share them (PSS).
    """
    memory: dict[str, float] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            space = str((folder / "ns" / "pid").readlink())
            rollup = (folder / "smaps_rollup").read_text()
        except OSError:
            # The process has ended, or is not ours.
            continue
        for line in rollup.splitlines():
            if line.startswith("Pss:"):
                memory[space] = memory.get(space, 0.0) + int(line.split()[1]) / 1e3
    return memory


def processor_s() -> dict[str, float]:
    """Return the processor time of each program on all machines, user and system, in seconds."""
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    times_s: dict[str, float] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().decode(errors="replace")
            times = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            # The process has ended.
            continue
        program = "others"
        for part, name in PROGRAMS.items():
            if part in command:
                program = name
                break
        ticks = int(times[11]) + int(times[12])
        times_s[program] = times_s.get(program, 0.0) + ticks / ticks_per_s
    return times_s


def kernel_mb() -> float:
    """Return the memory of the kernel, in megabytes: that of all programs of the machine."""
    kilobytes = 0
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in KERNEL_FIELDS:
            kilobytes += int(value.split()[0])
    return kilobytes / 1e3


def line_of(checkout: str, rows: Sequence[dict[str, Any]]) -> str:
    """Return the medians of the complete runs, or how the last run ended if there is none."""
    head = f"{rows[0]['switches']:>8} {rows[0]['machines']:>8} {checkout:7}"
    complete = [row for row in rows if row["ended"] == COMPLETE]
    if not complete:
        return f"{head} {rows[-1]['ended']}"

    def median(*path: str) -> float:
        return statistics.median(_value(row, path) for row in complete)

    times_s = [row["set_up_s"] for row in complete]
    return (
        f"{head} {len(complete):>4} {median('set_up_s'):>9.1f} {min(times_s):>6.1f} "
        f"{max(times_s):>6.1f} "
        f"{median('set_up_cpu_s', 'all'):>6.1f} {median('set_up_cpu_s', 'switch daemons'):>8.1f} "
        f"{median('rules'):>7.0f} "
        f"{median('rules_s'):>5.1f} {median('controllers_cpu_s'):>7.1f} "
        f"{median('mb_of_each'):>8.0f} "
        f"{median('kernel_mb'):>9.0f} {median('down_s'):>6.1f} {median('load'):>5.1f}"
    )


def _value(row: dict[str, Any], path: Sequence[str]) -> float:
    """Return a figure of a row, or its maximum if it is a list; 0 if it is missing."""
    value: Any = row
    for key in path:
        value = value.get(key, 0.0)
    return float(max(value) if isinstance(value, list) else value)


if __name__ == "__main__":
    sys.exit(main())
