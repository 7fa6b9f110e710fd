"""Measures set-up and teardown of an emulated network, and compares them with stock Mininet.

    python benchmarks/bench_setup.py [--network swiss-t1 ...] [--runs 3] [--no-mininet]
    python benchmarks/bench_setup.py --network manet:nodes=1000,seed=3 --before CHECKOUT

All networks have the same wiring, in the same sandbox, with the same Open vSwitch.

Stock Mininet is Host and OVSSwitch on the same datapath (batched start), with autoStaticArp. It is
built once with plain links, and once with TCLink at the rates of the links, as the testbed does. It
takes a second per switch, so it is measured on small networks only.

With ``--before``, an earlier testbed in CHECKOUT is measured in the same run. Every set-up of both
testbeds is a separate process, which has to load Mininet if it uses it. Set-up begins with the
first namespace and ends with the last switch. Teardown ends when only the loopback interface is
left.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

# Seconds of set-up and of teardown.
Times = tuple[float, float]

# Largest accepted ratio of the set-up time to the earlier one.
MAX_OF_BEFORE = 1.2

LARGE = "manet:nodes=115,seed=3"

# Largest number of switches for which stock Mininet is measured.
MAX_STOCK_SWITCHES = 50


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the networks in a sandbox, and print a table for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "--network",
        action="append",
        help=f"name of the catalogue; may be repeated (default: swiss-t1 and {LARGE})",
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--no-mininet",
        action="store_true",
        help=f"no stock Mininet (never above {MAX_STOCK_SWITCHES} switches)",
    )
    parser.add_argument(
        "--before", type=Path, help="a checkout of an earlier testbed, timed in the same run"
    )
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.one:
        print(*network_times(args.one))
        return 0
    from testbed.emulation.machine.capabilities import emulation_problem
    from testbed.emulation.sandbox.sandbox import in_sandbox

    if not in_sandbox():
        obstacle = emulation_problem()
        if obstacle is not None:
            print(f"set-up of emulated networks: not measured, {obstacle}")
            return 0
        sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

        from tests.helpers.sandboxes import run_in_sandbox

        arguments = sys.argv[1:] if argv is None else argv
        completed = run_in_sandbox([sys.executable, __file__, *arguments], timeout_s=4 * 3600)
        print(completed.stdout, end="")
        if completed.returncode:
            print(completed.stderr[-2000:], end="", file=sys.stderr)
        return completed.returncode
    for name in args.network or ["swiss-t1", LARGE]:
        measure(name, args.runs, stock=not args.no_mininet, before=args.before)
    print(
        f"loading Mininet: {mininet_load_s(args.runs):.3f} s, of which set-up hides what daemons "
        "and namespaces take"
    )
    return 0


def mininet_load_s(runs: int) -> float:
    """Return the median time in seconds of importing Mininet."""
    program = "import time; t = time.monotonic(); import mininet.net; print(time.monotonic() - t)"
    command = [sys.executable, "-P", "-c", program]
    seconds = []
    for _ in range(runs):
        completed = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds.append(float(completed.stdout))
    return statistics.median(seconds)


def measure(name: str, runs: int, *, stock: bool, before: Path | None = None) -> None:
    """Print the medians of a network and their ratios.

    The kinds of networks take turns, so that all meet the same load of the machine.

    Args:
        name: Name of the network in the catalogue.
        runs: Number of runs of each kind.
        stock: Whether to measure stock Mininet.
        before: Checkout of an earlier testbed, or None.
    """
    from testbed.model.wiring import wire
    from topologies import load_network

    wiring = wire(load_network(name))
    stock = stock and len(wiring.switches) <= MAX_STOCK_SWITCHES
    root = Path(__file__).resolve().parents[1]
    kinds: dict[str, Callable[[], Times]] = {}
    if stock:
        kinds["stock, unshaped"] = partial(stock_mininet, wiring, shape=False)
        kinds["stock, TCLink"] = partial(stock_mininet, wiring)
    if before is not None:
        kinds["before"] = partial(in_process, before.resolve(), name)
    kinds["testbed"] = partial(in_process, root, name)
    times: dict[str, list[Times]] = {kind: [] for kind in kinds}
    for _ in range(runs):
        for kind, run in kinds.items():
            times[kind].append(run())
    print(
        f"{name}: {len(wiring.hosts)} hosts, {len(wiring.switches)} switches, "
        f"{len(wiring.cables)} cables, {runs} runs"
    )
    columns = f"{'set-up s':>9} {'min':>6} {'max':>6}   {'teardown s':>10} {'min':>6} {'max':>6}"
    print(f"  {'':15} {columns}")
    medians = {}
    for kind, times_of_kind in times.items():
        up, down = zip(*times_of_kind, strict=True)
        medians[kind] = (statistics.median(up), statistics.median(down))
        print(
            f"  {kind:15} {medians[kind][0]:9.2f} {min(up):6.2f} {max(up):6.2f}   "
            f"{medians[kind][1]:10.2f} {min(down):6.2f} {max(down):6.2f}"
        )
    if stock:
        for kind in ("stock, unshaped", "stock, TCLink"):
            set_up = medians["testbed"][0] / medians[kind][0]
            teardown = medians["testbed"][1] / medians[kind][1]
            print(
                f"  testbed / {kind:15} {set_up:.3f} of its set-up, {teardown:.3f} of its teardown"
            )
    if before is not None:
        ratio = medians["testbed"][0] / medians["before"][0]
        print(
            f"  testbed / before          {ratio:.3f} of its set-up; "
            f"at most {MAX_OF_BEFORE} is accepted"
        )
    print(flush=True)


def in_process(checkout: Path, name: str) -> Times:
    """Measure a network in a new process, with the packages of a checkout."""
    command = [sys.executable, "-P", __file__, "--one", name]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    completed = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=3000
    )
    up, down = map(float, completed.stdout.split()[-2:])
    return up, down


def network_times(name: str) -> Times:
    """Measure the testbed's network, including the daemons of its switches."""
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.model.wiring import wire
    from topologies import load_network

    net = EmulatedNetwork(wire(load_network(name)))
    began = time.monotonic()
    net.start()
    built = time.monotonic()
    net.stop()
    _wait_until_empty()
    return built - began, time.monotonic() - built


def stock_mininet(wiring: Any, *, shape: bool = True) -> Times:
    """Measure the same network with the classes of Mininet.

    The private Open vSwitch is started before, so its start is not counted.

    Args:
        wiring: The wiring of the network.
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
    began = time.monotonic()
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
        link = cable.forward or cable.backward
        options: dict[str, float] = {"port1": cable.a_port, "port2": cable.b_port}
        if shape and link:
            rate_mbps = wiring.network.link(*link).capacity_bps / 1e6
            # Mininet refuses higher rates.
            if 0 < rate_mbps <= 1000:
                options["bw"] = rate_mbps
        net.addLink(cable.a, cable.b, **options)
    net.start()
    built = time.monotonic()
    net.stop()
    _wait_until_empty()
    teardown_s = time.monotonic() - built
    switches.stop()
    return built - began, teardown_s


def _wait_until_empty() -> None:
    """Wait until the interfaces of the network are removed.

    Open vSwitch has an interface as long as it runs.
    """
    from testbed.emulation.network.kernel.rtnetlink import Netlink

    end_s = time.monotonic() + 60
    permanent = {"lo", "ovs-netdev", "ovs-system"}
    with Netlink() as netlink:
        while set(netlink.interfaces()) - permanent and time.monotonic() < end_s:
            time.sleep(0.005)


if __name__ == "__main__":
    sys.exit(main())
