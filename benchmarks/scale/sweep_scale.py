"""How set-up, rules, controller and memory of one machine grow with switches; resumable, one network at a time.

    python benchmarks/scale/sweep_scale.py [--network manet:seed=3,nodes=SIZE] [--sizes 115,500,1000,2000] [--rows FILE]

Each network is built as ``testbed stream`` builds it (bridges with a controller), streamed over for some seconds
between its first end point and the one farthest from it, then given what ``testbed up`` adds (a rule a switch and
destination), and taken down. A row of ``--rows`` is one size; sizes that it has already are not measured again. Not
part of ``make bench``: 2000 switches take minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROWS = Path("results/scale/one_machine.jsonl")
LEAST_FREE_BYTES = 2 << 30
"""A size is given up where the machine has less than that left."""
STREAM_S, RATE_PPS = 4.0, 200
"""A slow stream: whether the switches can be followed at all, not how much they carry."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--network", default="manet:seed=3,nodes=SIZE", help="SIZE stands for the number of nodes"
    )
    parser.add_argument("--sizes", default="115,500,1000,2000")
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one size")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.inside:
        return measure(args.inside)
    args.rows.parent.mkdir(parents=True, exist_ok=True)
    known = (
        [json.loads(line) for line in args.rows.read_text().splitlines()]
        if args.rows.exists()
        else []
    )
    for size in args.sizes.split(","):
        name = args.network.replace("SIZE", size)
        row = next((row for row in known if row["network"] == name), None)
        if row is None:
            row = measured_apart(name, args.limit)
            with args.rows.open("a") as file:
                file.write(json.dumps(row) + "\n")
        print(words(row), flush=True)
    return 0


def measured_apart(name: str, limit_s: float) -> dict[str, Any]:
    """One network in a sandbox and a process of its own: what it measured until it ended, and how it ended."""
    from testbed.emulation.machine.provenance import describe_machine
    from testbed.emulation.sandbox.sandbox import sandbox_command

    free_before, began, least_free, ended = free_bytes(), time.monotonic(), free_bytes(), "whole"
    words_ = sandbox_command([sys.executable, __file__, "--inside", name], die_with_parent=True)
    with subprocess.Popen(
        words_, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        while child.poll() is None:
            least_free = min(least_free, free_bytes())
            if least_free < LEAST_FREE_BYTES or time.monotonic() - began > limit_s:
                ended = (
                    "memory" if least_free < LEAST_FREE_BYTES else f"not done after {limit_s:g} s"
                )
                child.kill()
            time.sleep(0.2)
        out, err = child.communicate()
    row: dict[str, Any] = {"network": name, "machine": describe_machine()}
    for line in out.decode().splitlines():
        row |= json.loads(line)
    if child.returncode and ended == "whole":
        ended = (err.decode().strip().splitlines() or [f"exit code {child.returncode}"])[-1]
    return row | {"machine_fell_mb": round((free_before - least_free) / 1e6), "ended": ended}


def free_bytes() -> int:
    """What the machine could still give to programs."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    return 0


def say(**figures: Any) -> None:
    """One line, at once: what was measured stays where the next step kills the process."""
    print(json.dumps(figures), flush=True)


@contextmanager
def step(name: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    say(**{f"{name}_s": round(time.monotonic() - began, 3)})


def measure(name: str) -> int:
    """Every stage of one network; inside a sandbox."""
    from testbed.emulation.control.base_rules import install_shortest_paths
    from testbed.emulation.control.controller_link import ControllerLink
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.model.wiring import wire
    from testbed.openflow.rules import split_rules
    from testbed.stream.workload import stream_plan
    from topologies import load_network

    network = load_network(name)
    source, sink = farthest(network)
    with step("plan"):
        plan = stream_plan(network, source, sink, rate_pps=RATE_PPS, faults=(), duration_s=STREAM_S)
    wiring = wire(network, [source, sink])
    say(
        hosts=len(wiring.hosts),
        switches=len(wiring.switches),
        cables=len(wiring.cables),
        links=len(network.links),
    )
    controller = ControllerLink()
    controller.start()
    began = time.monotonic()
    net = EmulatedNetwork(
        wiring, controller_port=controller.port, before_bridges=controller.wait_until_ready
    )
    net.start()
    say(
        set_up_s=round(time.monotonic() - began, 3),
        steps={k: round(v, 3) for k, v in net.setup_seconds.items()},
    )
    say(set_up_cpu_s=switch_daemon_s())
    with step("connect"):
        controller.wait_for_switches([s.dpid for s in wiring.switches], timeout_s=300)
    rules, _ = split_rules(wiring, plan.forward, plan.backward)
    with step("stream_rules"):
        controller.install(rules, plan_id=1)
    say(
        stream_rules=len(rules),
        held_mb_stream=held_mb(),
        controller_cpu_s=processor_s(controller.pid),
    )
    before_s = switch_daemon_s()
    stream(net, controller, plan)
    say(stream_cpu_s=round(switch_daemon_s() - before_s, 2))
    before_s = switch_daemon_s()
    with step("ground_rules"):
        say(ground_rules=install_shortest_paths(wiring))
    say(held_mb_up=held_mb(), ground_rules_cpu_s=round(switch_daemon_s() - before_s, 2))
    with step("stop"):
        controller.stop()
        net.stop()
    return 0


def stream(net: Any, controller: Any, plan: Any) -> None:
    """A stream without faults: did the machine keep up with it?"""
    from testbed.emulation.control.fault_injection import FaultInjector
    from testbed.errors import TestbedError
    from testbed.machines.adapters.platform import occupied_here
    from testbed.stream.emulated.fabric import streams_over

    try:
        with occupied_here(net, controller) as platform:
            found = streams_over(platform, (plan,), lambda _: None, FaultInjector(net))[0]
    except TestbedError as error:
        say(stream_failed=str(error))
        return
    sent, received = len(found.sent.time_s), len(found.received.time_s)
    say(
        sent=sent,
        lost=sent - received,
        transit_ms=transit_ms(found),
        sender_lag_s=round(found.health.sender_lag_s, 4),
        cpu=None if found.health.cpu_fraction is None else round(found.health.cpu_fraction, 2),
    )


def transit_ms(run: Any) -> float | None:
    """Median time of a packet over the route, milliseconds."""
    sent = {
        (int(b), int(s)): at
        for b, s, at in zip(run.sent.block, run.sent.symbol, run.sent.time_s, strict=True)
    }
    got = zip(run.received.block, run.received.symbol, run.received.time_s, strict=True)
    took = [at - sent[int(b), int(s)] for b, s, at in got if (int(b), int(s)) in sent]
    return round(statistics.median(took) * 1e3, 2) if took else None


def farthest(network: Any) -> tuple[str, str]:
    """The first end point and the one most hops away (the last such)."""
    first = network.end_points[0].id
    hops, queue = {first: 0}, [first]
    for node in queue:
        for index in network.out_links(node):
            target = network.links[index].target
            if target not in hops:
                hops[target] = hops[node] + 1
                queue.append(target)
    ends = [node.id for node in network.end_points if node.id in hops]
    return first, max(reversed(ends), key=lambda node: hops[node])


def held_mb() -> dict[str, float]:
    """Program -> megabytes of the sandbox's processes, shared pages divided among those that share them."""
    found: dict[str, float] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words_ = (folder / "cmdline").read_bytes().split(b"\0")
            rollup = (folder / "smaps_rollup").read_text()
        except OSError:
            continue
        kilobytes = next(
            (int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0
        )
        found[_program(words_)] = found.get(_program(words_), 0.0) + kilobytes / 1e3
    return {name: round(value, 1) for name, value in sorted(found.items())}


def _program(words_: list[bytes]) -> str:
    text = b" ".join(words_).decode(errors="replace")
    for part, name in (
        ("openflow_controller", "controller"),
        ("namespace_holder", "hosts"),
        ("--inside", "testbed"),
    ):
        if part in text:
            return name
    return Path(words_[0].decode(errors="replace")).name


def switch_daemon_s() -> float:
    """Processor seconds of the switch daemon so far: other programs of the machine make no difference to them."""
    folders = [folder for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    return sum(
        processor_s(int(f.name))
        for f in folders
        if (f / "comm").read_text().strip() == "ovs-vswitchd"
    )


def processor_s(pid: int) -> float:
    """Processor seconds that a process has used, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return round((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), 2)


def words(row: dict[str, Any]) -> str:
    """One line a size; ``s cpu``: processor seconds of the switch daemon."""
    parts = [
        row["network"],
        f"{row.get('switches', '?')} switches",
        f"set-up {row.get('set_up_s', '?')} s",
    ]
    parts += [
        f"{key.replace('_', ' ')} {row[key]}"
        for key in ("connect_s", "stream_rules", "ground_rules")
        if key in row
    ]
    parts += [
        f"{key.removesuffix('_cpu_s').replace('_', ' ')} {row[key]} s cpu"
        for key in row
        if key.endswith("_cpu_s")
    ]
    held = row.get("held_mb_up") or row.get("held_mb_stream") or {}
    return ", ".join(
        [*parts, f"{sum(held.values()):.0f} MB in processes", f"ended: {row['ended']}"]
    )


if __name__ == "__main__":
    sys.exit(main())
