"""Measures set-up and teardown of an emulated network beside those of stock Mininet.

    python benchmarks/bench_setup.py [--network swiss-t1 ...] [--runs 3] [--no-mininet]
    [--before CHECKOUT]

The wiring, the sandbox and Open vSwitch are the same. Stock Mininet uses Host, OVSSwitch on the
same datapath (batched start) and autoStaticArp. It is run with plain links, and with TCLink at the
rates of the links, as in the testbed. It is run only on small networks, because it takes a second
per switch.

With --before, an earlier testbed, whose packages are in CHECKOUT, is measured in the same run. Each
set-up of both testbeds is a process, which must load Mininet if it uses Mininet. Set-up begins with
the first namespace, and ends with the last switch. Teardown ends when no interface but the loopback
is left.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Times(NamedTuple):
    """Durations of set-up and teardown in seconds."""

    up_s: float
    down_s: float


# Sets a network up and down, from its wiring.
Measure = Callable[[Any], Times]

# Accepted set-up time over that of the earlier testbed.
MAX_OF_BEFORE = 1.2
LARGE = "manet:nodes=115,seed=3"
MAX_STOCK_SWITCHES = 50
# The links of TCLink have at most this rate.
MAX_TCLINK_MBPS = 1000
# Time after which the interfaces of a network must be gone.
MAX_TEARDOWN_S = 60
STOCK_KINDS = ("stock, unshaped", "stock, TCLink")
LOAD_MININET = "import time; t = time.monotonic(); import mininet.net; print(time.monotonic() - t)"


def main(argv: Sequence[str] | None = None) -> int:
    summary = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument(
        "--network",
        action="append",
        help="name of a network (default: swiss-t1, and a large one without stock Mininet)",
    )
    parser.add_argument("--runs", type=int, default=3, help="number of runs (default 3)")
    parser.add_argument(
        "--no-mininet",
        action="store_true",
        help=f"without stock Mininet, as always above {MAX_STOCK_SWITCHES} switches",
    )
    parser.add_argument(
        "--before", type=Path, help="a checkout of an earlier testbed, timed in the same run"
    )
    # The network that a child process sets up.
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.one:
        print(*measure_here(arguments.one))
        return 0
    from testbed.emulation.sandbox.sandbox import in_sandbox

    if not in_sandbox():
        return run_again_in_sandbox(sys.argv[1:] if argv is None else argv)
    for name in arguments.network or ["swiss-t1", LARGE]:
        measure(name, arguments.runs, stock=not arguments.no_mininet, before=arguments.before)
    print(
        f"loading Mininet: {loading_time_s(arguments.runs):.3f} s, "
        "of which set-up hides what daemons and namespaces take"
    )
    return 0


def run_again_in_sandbox(argv: Sequence[str]) -> int:
    """Run this program in a sandbox, print its output, and return its exit code."""
    from testbed.emulation.machine.capabilities import emulation_problem

    obstacle = emulation_problem()
    if obstacle is not None:
        print(f"set-up of emulated networks: not measured, {obstacle}")
        return 0
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.helpers.sandboxes import run_in_sandbox

    process = run_in_sandbox([sys.executable, __file__, *argv], timeout_s=4 * 3600)
    print(process.stdout, end="")
    if process.returncode:
        print(process.stderr[-2000:], end="", file=sys.stderr)
    return process.returncode


def loading_time_s(runs: int) -> float:
    """Return the median time in which a process loads Mininet, in seconds."""
    argv = [sys.executable, "-P", "-c", LOAD_MININET]
    times_s = []
    for _ in range(runs):
        process = subprocess.run(argv, capture_output=True, text=True, check=True)
        times_s.append(float(process.stdout))
    return statistics.median(times_s)


def measure(name: str, runs: int, *, stock: bool, before: Path | None = None) -> None:
    """Measure a network, and print medians and their ratios.

    The kinds of networks take turns, so that all are measured under the same load of the machine.

    Args:
        name: Name of the network.
        runs: Number of runs of each kind.
        stock: Whether stock Mininet is measured, if the network is small.
        before: A checkout of an earlier testbed, or None.
    """
    from testbed.model.wiring import wire
    from topologies import load_network

    wiring = wire(load_network(name))
    stock = stock and len(wiring.switches) <= MAX_STOCK_SWITCHES
    kinds = kinds_of_networks(name, stock=stock, before=before)
    times: dict[str, list[Times]] = {kind: [] for kind in kinds}
    for _ in range(runs):
        for kind, measure_kind in kinds.items():
            times[kind].append(measure_kind(wiring))
    print(
        f"{name}: {len(wiring.hosts)} hosts, {len(wiring.switches)} switches, "
        f"{len(wiring.cables)} cables, {runs} runs"
    )
    medians = print_times(times)
    ours = medians["testbed"]
    if stock:
        for kind in STOCK_KINDS:
            up_ratio = ours.up_s / medians[kind].up_s
            down_ratio = ours.down_s / medians[kind].down_s
            print(
                f"  testbed / {kind:15} {up_ratio:.3f} of its set-up, "
                f"{down_ratio:.3f} of its teardown"
            )
    if before is not None:
        ratio = ours.up_s / medians["before"].up_s
        print(
            f"  testbed / before          {ratio:.3f} of its set-up; "
            f"at most {MAX_OF_BEFORE} is accepted"
        )
    print(flush=True)


def kinds_of_networks(name: str, *, stock: bool, before: Path | None) -> dict[str, Measure]:
    """Return the function that measures each kind of network, in the order of the runs."""
    kinds: dict[str, Measure] = {}
    if stock:
        kinds["stock, unshaped"] = functools.partial(stock_mininet, shape=False)
        kinds["stock, TCLink"] = stock_mininet
    if before is not None:
        kinds["before"] = functools.partial(measure_checkout, before.resolve(), name)
    root = Path(__file__).resolve().parents[1]
    kinds["testbed"] = functools.partial(measure_checkout, root, name)
    return kinds


def print_times(times: Mapping[str, Sequence[Times]]) -> dict[str, Times]:
    """Print the times of each kind of network, and return the medians."""
    print(
        f"  {'':15} {'set-up s':>9} {'min':>6} {'max':>6}   "
        f"{'teardown s':>10} {'min':>6} {'max':>6}"
    )
    medians = {}
    for kind, times_of_kind in times.items():
        up_s = [run.up_s for run in times_of_kind]
        down_s = [run.down_s for run in times_of_kind]
        medians[kind] = Times(statistics.median(up_s), statistics.median(down_s))
        print(
            f"  {kind:15} {medians[kind].up_s:9.2f} {min(up_s):6.2f} {max(up_s):6.2f}   "
            f"{medians[kind].down_s:10.2f} {min(down_s):6.2f} {max(down_s):6.2f}"
        )
    return medians


def measure_checkout(checkout: Path, name: str, _wiring: Any) -> Times:
    """Measure a network in a process with the packages of a checkout."""
    process = subprocess.run(
        [sys.executable, "-P", __file__, "--one", name],
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        check=True,
        timeout=3000,
    )
    up_s, down_s = map(float, process.stdout.split()[-2:])
    return Times(up_s, down_s)


def measure_here(name: str) -> Times:
    """Measure a network of the testbed in this process, including the daemons of its switches."""
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.model.wiring import wire
    from topologies import load_network

    net = EmulatedNetwork(wire(load_network(name)))
    start_s = time.monotonic()
    net.start()
    built_s = time.monotonic()
    net.stop()
    _wait_until_empty()
    return Times(built_s - start_s, time.monotonic() - built_s)


def stock_mininet(wiring: Any, *, shape: bool = True) -> Times:
    """Measure a network of Mininet's classes.

    It uses a private Open vSwitch that is already running, whose start is not measured.

    Args:
        wiring: The wiring.
        shape: Whether links have their rates (TCLink).
    """
    from mininet.link import Link, TCLink
    from mininet.log import setLogLevel
    from mininet.net import Mininet
    from mininet.node import Host, OVSSwitch

    from testbed.emulation.network.open_vswitch.switches import PrivateSwitches, choose_datapath

    setLogLevel("critical")
    datapath = choose_datapath()
    switches = PrivateSwitches(datapath)
    switches.start()
    start_s = time.monotonic()
    net = Mininet(
        host=Host,
        switch=OVSSwitch,
        link=TCLink if shape else Link,
        controller=None,
        autoStaticArp=True,
    )
    for switch in wiring.switches:
        net.addSwitch(
            switch.name,
            dpid=f"{switch.dpid:016x}",
            datapath=datapath,
            protocols="OpenFlow13",
            batch=True,
        )
    for host in wiring.hosts:
        net.addHost(host.name, ip=f"{host.ip}/8", mac=host.mac)
    for cable in wiring.cables:
        options = {"port1": cable.a_port, "port2": cable.b_port}
        link = cable.forward or cable.backward
        if shape and link:
            rate_mbps = wiring.network.link(*link).capacity_bps / 1e6
            if 0 < rate_mbps <= MAX_TCLINK_MBPS:
                options["bw"] = rate_mbps
        net.addLink(cable.a, cable.b, **options)
    net.start()
    built_s = time.monotonic()
    net.stop()
    _wait_until_empty()
    down_s = time.monotonic() - built_s
    switches.stop()
    return Times(built_s - start_s, down_s)


def _wait_until_empty() -> None:
    """Wait until the interfaces of the network are gone.

    Open vSwitch has interfaces of its own while it runs.
    """
    from testbed.emulation.network.kernel.rtnetlink import Netlink

    end_s = time.monotonic() + MAX_TEARDOWN_S
    with Netlink() as netlink:
        while time.monotonic() < end_s:
            if not set(netlink.interfaces()) - {"lo", "ovs-netdev", "ovs-system"}:
                return
            time.sleep(0.005)


if __name__ == "__main__":
    sys.exit(main())
