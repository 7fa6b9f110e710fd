"""How set-up time, processor time, memory and rules grow with switches, on one machine and on several: small sizes by
default.

    python benchmarks/scale/bench_scale.py --sizes 115,250,500,1000,2000 --machines 1,2,4 --runs 3 [--before DIR]
    [--rows FILE]

Mobile networks, a host a switch, one stream between the first host and the one farthest from it: its rules are
installed, no packet is sent. Machines are namespaces of this one and share its processors. ``--before``: another
checkout, run in turn with this one.
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
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from sweep_scale import farthest

PROGRAMS = (
    ("openflow_controller", "controller"),
    ("namespace_holder", "hosts"),
    ("ovs-vswitchd", "switch daemons"),
    ("ovsdb-server", "databases"),
    ("python", "testbed"),
)
KERNEL = ("SUnreclaim", "KernelStack", "PageTables", "Percpu")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default="60,130", help="numbers of switches")
    parser.add_argument("--machines", default="1,2", help="numbers of machines")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one run")
    parser.add_argument("--before", type=Path, metavar="DIR", help="another checkout")
    parser.add_argument("--rows", type=Path, help="append one JSON object a run")
    parser.add_argument(
        "--plans", type=Path, help="folder that keeps plans: planning 2000 switches takes a minute"
    )
    parser.add_argument(
        "--by",
        default="",
        metavar="COMMAND",
        help="start each run by it, for example 'nice -n -10'",
    )
    parser.add_argument("--inside", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.inside:
        print(json.dumps(measure(int(args.inside[0]), int(args.inside[1]), Path(args.inside[2]))))
        return 0
    codes = {"before": args.before.resolve()} if args.before else {}
    codes["now"] = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory() as folder:
        plans = args.plans or Path(folder)
        plans.mkdir(parents=True, exist_ok=True)
        print(HEADER, flush=True)
        for size in map(int, args.sizes.split(",")):
            plan = planned(size, plans)
            for machines in map(int, args.machines.split(",")):
                compare(size, machines, plan, codes, args)
    return 0


def compare(
    size: int, machines: int, plan: Path, codes: dict[str, Path], args: argparse.Namespace
) -> None:
    """The runs of one size, each code's in turn, and a line of medians for each code."""
    rows: dict[str, list[dict[str, Any]]] = {code: [] for code in codes}
    for _ in range(args.runs):
        for code, folder in codes.items():
            row = {"code": code, **measured_apart(size, machines, plan, folder, args)}
            rows[code].append(row)
            if args.rows:
                with args.rows.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    for code, found in rows.items():
        print(line(code, found), flush=True)


def planned(size: int, folder: Path) -> Path:
    """Network, ends and rules of the stream over it, in a file."""
    from testbed.model.wiring import wire
    from testbed.openflow.rules import split_rules
    from testbed.stream.workload import stream_plan
    from topologies import load_network

    path = folder / f"manet-3-{size}.pickle"
    if not path.exists():
        network = load_network(f"manet:seed=3,nodes={size}")
        ends, began = farthest(network), time.process_time()
        plan = stream_plan(network, *ends, rate_pps=200, faults=(), duration_s=4.0)
        rules, _ = split_rules(wire(network, ends), plan.forward, plan.backward)
        path.write_bytes(
            pickle.dumps((f"manet:seed=3,nodes={size}", ends, rules, time.process_time() - began))
        )
    return path


def measured_apart(
    size: int, machines: int, plan: Path, code: Path, args: argparse.Namespace
) -> dict[str, Any]:
    """One run in a sandbox and a process of its own; what went wrong where it did not end well."""
    from testbed.emulation.sandbox.sandbox import sandbox_command

    inside = [
        sys.executable,
        str(Path(__file__).resolve()),
        "--inside",
        str(size),
        str(machines),
        str(plan),
    ]
    words = [*args.by.split(), *sandbox_command(inside, die_with_parent=True)]
    row: dict[str, Any] = {"switches": size, "machines": machines}
    environment = {**os.environ, "PYTHONPATH": str(code)}
    try:
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=args.limit, check=False
        )
    except subprocess.TimeoutExpired:
        return row | {"ended": f"not up after {args.limit:g} s"}
    if done.returncode:
        return row | {
            "ended": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        }
    return row | json.loads(done.stdout.splitlines()[-1]) | {"ended": "whole"}


def measure(size: int, machines: int, plan: Path) -> dict[str, Any]:
    """One network up, its rules in, and down again; inside a sandbox."""
    from testbed.machines.adapters.cluster import machines_up
    from testbed.machines.adapters.distributed_network import distributed_network, placement_of
    from testbed.machines.adapters.rpc_network import PartitionSpec
    from testbed.machines.machines_request import MachinesRequest
    from testbed.model.wiring import wire
    from topologies import load_network

    name, ends, rules, plan_s = pickle.loads(plan.read_bytes())
    wiring = wire(load_network(name), ends)
    talking = (
        {"talking": ends} if "talking" in {field.name for field in fields(PartitionSpec)} else {}
    )
    with machines_up(MachinesRequest(count=machines)) as up:
        placement = placement_of(up, wiring, MachinesRequest(count=machines))
        before, cpu, kernel, began = held_mb(), processor_s(), kernel_mb(), time.monotonic()
        with distributed_network(up, wiring, placement, **talking) as network:
            set_up_s, built_cpu, built_kernel = time.monotonic() - began, processor_s(), kernel_mb()
            began = time.monotonic()
            network.install(rules, 1)
            rules_s, after, all_cpu = time.monotonic() - began, held_mb(), processor_s()
            steps = getattr(network, "setup_seconds", ())
            began = time.monotonic()
        down_s = time.monotonic() - began
    own = str(Path("/proc/self/ns/pid").readlink())
    used = {
        program: round(seconds - cpu.get(program, 0.0), 2) for program, seconds in built_cpu.items()
    }
    return {
        "load": round(os.getloadavg()[0], 1),
        "cables": len(wiring.cables),
        "crossing": len(placement.crossing(wiring)),
        "plan_cpu_s": round(plan_s, 1),
        "rules": len(rules),
        "set_up_s": round(set_up_s, 2),
        "steps_s": {
            step: round(max(one[step] for one in steps), 2) for step in (steps[0] if steps else ())
        },
        "set_up_cpu_s": used | {"all": round(sum(used.values()), 2)},
        "rules_s": round(rules_s, 2),
        "controllers_cpu_s": round(all_cpu.get("controller", 0.0), 2),
        "mb_of_each": sorted(round(mb) for space, mb in after.items() if space != own),
        "mb_before_of_each": sorted(round(mb) for space, mb in before.items() if space != own),
        "kernel_mb": round(built_kernel - kernel),
        "down_s": round(down_s, 2),
    }


def held_mb() -> dict[str, float]:
    """Process namespace (machine) -> megabytes of its processes, shared pages divided among those that share them
    (PSS)."""
    found: dict[str, float] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            space = str((entry / "ns" / "pid").readlink())
            pss = next(
                row
                for row in (entry / "smaps_rollup").read_text().splitlines()
                if row.startswith("Pss:")
            )
        except (OSError, StopIteration):
            continue
        found[space] = found.get(space, 0.0) + int(pss.split()[1]) / 1e3
    return found


def processor_s() -> dict[str, float]:
    """Program -> processor seconds, user and system, of all machines' processes so far."""
    found: dict[str, float] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace")
            times = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        program = next((name for part, name in PROGRAMS if part in words), "others")
        found[program] = found.get(program, 0.0) + (int(times[11]) + int(times[12])) / os.sysconf(
            "SC_CLK_TCK"
        )
    return found


def kernel_mb() -> float:
    """What the kernel holds for itself: the whole machine's, others' too."""
    rows = dict(row.split(":") for row in Path("/proc/meminfo").read_text().splitlines())
    return sum(int(rows[name].split()[0]) for name in KERNEL) / 1e3


HEADER = (
    f"{'switches':>8} {'machines':>8} {'code':7} {'runs':>4} {'set-up s':>9} {'least':>6} {'most':>6} {'cpu s':>6} "
    f"{'daemons':>8} {'rules':>7} {'in s':>5} {'ctl cpu':>7} {'MB each':>8} {'kernel MB':>9} {'down s':>6} {'load':>5}"
)


def line(code: str, rows: list[dict[str, Any]]) -> str:
    """Medians of the runs that ended well; else how the last one ended."""
    head = f"{rows[0]['switches']:>8} {rows[0]['machines']:>8} {code:7}"
    whole = [row for row in rows if row["ended"] == "whole"]
    if not whole:
        return f"{head} {rows[-1]['ended']}"

    def median(*path: str) -> float:
        values = []
        for row in whole:
            value: Any = row
            for key in path:
                value = value.get(key, 0.0)
            values.append(max(value) if isinstance(value, list) else value)
        return statistics.median(values)

    times = [row["set_up_s"] for row in whole]
    return (
        f"{head} {len(whole):>4} {median('set_up_s'):>9.1f} {min(times):>6.1f} {max(times):>6.1f} "
        f"{median('set_up_cpu_s', 'all'):>6.1f} {median('set_up_cpu_s', 'switch daemons'):>8.1f} "
        f"{median('rules'):>7.0f} "
        f"{median('rules_s'):>5.1f} {median('controllers_cpu_s'):>7.1f} {median('mb_of_each'):>8.0f} "
        f"{median('kernel_mb'):>9.0f} {median('down_s'):>6.1f} {median('load'):>5.1f}"
    )


if __name__ == "__main__":
    sys.exit(main())
