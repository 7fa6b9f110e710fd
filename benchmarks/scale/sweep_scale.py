"""Measures how set-up, rules, controller and memory of one machine grow with the switches.

    python benchmarks/scale/sweep_scale.py [--network manet:seed=3,nodes=SIZE]
    [--sizes 115,500,1000,2000] [--rows FILE]

Each network is built as by ``testbed stream``: its bridges have a controller. A stream runs for
some seconds between the first end point and the one that is farthest from it. Then the network
gets what ``testbed up`` adds: a rule for each switch and destination. A row of ``--rows`` is one
size. Sizes that it already has are not measured again, so that the program can be interrupted. It
is not part of ``make bench``, because 2000 switches take minutes.
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
# A size is abandoned if the machine has less memory than this left.
MIN_FREE_BYTES = 2 << 30
# A slow stream shows whether the switches can be followed, and not how much they carry.
STREAM_S = 4.0
RATE_PPS = 200
# Programs by a part of their command line.
PROGRAMS = {
    "openflow_controller": "controller",
    "namespace_holder": "hosts",
    "--inside": "testbed",
}


def main(argv: Sequence[str] | None = None) -> int:
    summary = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument(
        "--network",
        default="manet:seed=3,nodes=SIZE",
        help="name of the networks, in which SIZE stands for the number of nodes",
    )
    parser.add_argument("--sizes", default="115,500,1000,2000", help="numbers of nodes")
    parser.add_argument("--rows", type=Path, default=ROWS, help="file for the rows, as JSON")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one size")
    # The network that a child process measures.
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.inside:
        return measure(arguments.inside)
    arguments.rows.parent.mkdir(parents=True, exist_ok=True)
    row_of_network = {}
    if arguments.rows.exists():
        for text in arguments.rows.read_text().splitlines():
            row = json.loads(text)
            row_of_network.setdefault(row["network"], row)
    for size in arguments.sizes.split(","):
        name = arguments.network.replace("SIZE", size)
        if name not in row_of_network:
            row_of_network[name] = measure_in_sandbox(name, arguments.limit)
            with arguments.rows.open("a") as file:
                file.write(json.dumps(row_of_network[name]) + "\n")
        print(line_of(row_of_network[name]), flush=True)
    return 0


def measure_in_sandbox(name: str, limit_s: float) -> dict[str, Any]:
    """Measure a network in a process in a sandbox.

    Args:
        name: Name of the network.
        limit_s: Time after which the process is killed.

    Returns:
        What the process measured until it ended, and how it ended.
    """
    from testbed.emulation.machine.provenance import describe_machine
    from testbed.emulation.sandbox.sandbox import sandbox_command

    free_before = free_bytes()
    least_free = free_before
    start_s = time.monotonic()
    ended = "whole"
    argv = sandbox_command([sys.executable, __file__, "--inside", name], die_with_parent=True)
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        while child.poll() is None:
            least_free = min(least_free, free_bytes())
            if least_free < MIN_FREE_BYTES:
                ended = "memory"
                child.kill()
            elif time.monotonic() - start_s > limit_s:
                ended = f"not done after {limit_s:g} s"
                child.kill()
            time.sleep(0.2)
        output, errors = child.communicate()
    row: dict[str, Any] = {"network": name, "machine": describe_machine()}
    for text in output.decode().splitlines():
        row |= json.loads(text)
    if child.returncode and ended == "whole":
        error_lines = errors.decode().strip().splitlines()
        ended = error_lines[-1] if error_lines else f"exit code {child.returncode}"
    row["machine_fell_mb"] = round((free_before - least_free) / 1e6)
    row["ended"] = ended
    return row


def free_bytes() -> int:
    """Return the memory that is available to programs."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    return 0


def report(**figures: Any) -> None:
    """Print figures as a JSON object at once.

    They are not lost if the next step kills the process.
    """
    print(json.dumps(figures), flush=True)


@contextmanager
def step(name: str) -> Iterator[None]:
    """Report the duration of the block."""
    start_s = time.monotonic()
    yield
    report(**{f"{name}_s": round(time.monotonic() - start_s, 3)})


def measure(name: str) -> int:
    """Report every stage of a network, inside a sandbox."""
    from testbed.emulation.control.base_rules import install_shortest_paths
    from testbed.emulation.control.controller_link import ControllerLink
    from testbed.model.wiring import wire
    from testbed.openflow.rules import split_rules
    from testbed.stream.workload import stream_plan
    from topologies import load_network

    network = load_network(name)
    source, sink = farthest(network)
    with step("plan"):
        plan = stream_plan(network, source, sink, rate_pps=RATE_PPS, faults=(), duration_s=STREAM_S)
    wiring = wire(network, [source, sink])
    report(
        hosts=len(wiring.hosts),
        switches=len(wiring.switches),
        cables=len(wiring.cables),
        links=len(network.links),
    )
    controller = ControllerLink()
    controller.start()
    net = set_up(wiring, controller)
    with step("connect"):
        datapath_ids = [switch.dpid for switch in wiring.switches]
        controller.wait_for_switches(datapath_ids, timeout_s=300)
    rules, _ = split_rules(wiring, plan.forward, plan.backward)
    with step("stream_rules"):
        controller.install(rules, plan_id=1)
    report(
        stream_rules=len(rules),
        held_mb_stream=memory_mb(),
        controller_cpu_s=processor_s(controller.pid),
    )
    before_s = switch_daemon_s()
    run_stream(net, controller, plan)
    report(stream_cpu_s=round(switch_daemon_s() - before_s, 2))
    before_s = switch_daemon_s()
    with step("ground_rules"):
        report(ground_rules=install_shortest_paths(wiring))
    ground_rules_cpu_s = round(switch_daemon_s() - before_s, 2)
    report(held_mb_up=memory_mb(), ground_rules_cpu_s=ground_rules_cpu_s)
    with step("stop"):
        controller.stop()
        net.stop()
    return 0


def set_up(wiring: Any, controller: Any) -> Any:
    """Start a network, report the durations, and return it."""
    from testbed.emulation.network.emulated_network import EmulatedNetwork

    start_s = time.monotonic()
    net = EmulatedNetwork(
        wiring, controller_port=controller.port, before_bridges=controller.wait_until_ready
    )
    net.start()
    report(
        set_up_s=round(time.monotonic() - start_s, 3),
        steps={name: round(seconds, 3) for name, seconds in net.setup_seconds.items()},
    )
    report(set_up_cpu_s=switch_daemon_s())
    return net


def run_stream(net: Any, controller: Any, plan: Any) -> None:
    """Run a stream without faults, and report whether the machine kept up with it."""
    from testbed.emulation.control.fault_injection import FaultInjector
    from testbed.errors import TestbedError
    from testbed.machines.adapters.platform import use_running_network
    from testbed.stream.emulated.fabric import streams_over

    def ignore(_: object) -> None:
        return None

    try:
        with use_running_network(net, controller) as platform:
            (run,) = streams_over(platform, (plan,), ignore, FaultInjector(net))
    except TestbedError as error:
        report(stream_failed=str(error))
        return
    sent = len(run.sent.time_s)
    received = len(run.received.time_s)
    cpu_fraction = run.health.cpu_fraction
    report(
        sent=sent,
        lost=sent - received,
        transit_ms=transit_ms(run),
        sender_lag_s=round(run.health.sender_lag_s, 4),
        cpu=None if cpu_fraction is None else round(cpu_fraction, 2),
    )


def transit_ms(run: Any) -> float | None:
    """Return the median transit time of a packet in milliseconds, or None if none arrived."""
    sent_s = {}
    for block, symbol, time_s in zip(run.sent.block, run.sent.symbol, run.sent.time_s, strict=True):
        sent_s[int(block), int(symbol)] = time_s
    transit_times_s = []
    for block, symbol, time_s in zip(
        run.received.block, run.received.symbol, run.received.time_s, strict=True
    ):
        packet = (int(block), int(symbol))
        if packet in sent_s:
            transit_times_s.append(time_s - sent_s[packet])
    if not transit_times_s:
        return None
    return round(statistics.median(transit_times_s) * 1e3, 2)


def farthest(network: Any) -> tuple[str, str]:
    """Return the first end point, and the last one of those that are most hops away from it."""
    first = network.end_points[0].id
    hops = {first: 0}
    queue = [first]
    for node in queue:
        for index in network.out_links(node):
            target = network.links[index].target
            if target not in hops:
                hops[target] = hops[node] + 1
                queue.append(target)
    reached = [node.id for node in network.end_points if node.id in hops]
    return first, max(reversed(reached), key=hops.__getitem__)


def processes() -> list[Path]:
    """Return the folders of all processes in /proc."""
    return [folder for folder in Path("/proc").iterdir() if folder.name.isdigit()]


def memory_mb() -> dict[str, float]:
    """Return the memory of the sandbox's processes by program, in megabytes.

    Shared pages are divided among the processes that share them (PSS).
    """
    memory: dict[str, float] = {}
    for folder in processes():
        try:
            argv = (folder / "cmdline").read_bytes().split(b"\0")
            rollup = (folder / "smaps_rollup").read_text()
        except OSError:
            # The process has ended, or is not ours.
            continue
        kilobytes = 0
        for line in rollup.splitlines():
            if line.startswith("Pss:"):
                kilobytes = int(line.split()[1])
        program = _program(argv)
        memory[program] = memory.get(program, 0.0) + kilobytes / 1e3
    return {name: round(megabytes, 1) for name, megabytes in sorted(memory.items())}


def _program(argv: list[bytes]) -> str:
    command = b" ".join(argv).decode(errors="replace")
    for part, name in PROGRAMS.items():
        if part in command:
            return name
    return Path(argv[0].decode(errors="replace")).name


def switch_daemon_s() -> float:
    """Return the processor time of the switch daemons in seconds.

    Other programs of the machine do not change it.
    """
    total_s = 0.0
    for folder in processes():
        if (folder / "comm").read_text().strip() == "ovs-vswitchd":
            total_s += processor_s(int(folder.name))
    return total_s


def processor_s(pid: int) -> float:
    """Return the processor time of a process, user and system, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return round(ticks / os.sysconf("SC_CLK_TCK"), 2)


def line_of(row: dict[str, Any]) -> str:
    """Return the line of a size; ``s cpu`` are processor seconds of the switch daemon."""
    parts = [
        row["network"],
        f"{row.get('switches', '?')} switches",
        f"set-up {row.get('set_up_s', '?')} s",
    ]
    for field in ("connect_s", "stream_rules", "ground_rules"):
        if field in row:
            parts.append(f"{field.replace('_', ' ')} {row[field]}")
    for field in row:
        if field.endswith("_cpu_s"):
            name = field.removesuffix("_cpu_s").replace("_", " ")
            parts.append(f"{name} {row[field]} s cpu")
    memory = row.get("held_mb_up") or row.get("held_mb_stream") or {}
    parts.append(f"{sum(memory.values()):.0f} MB in processes")
    parts.append(f"ended: {row['ended']}")
    return ", ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
