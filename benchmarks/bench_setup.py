"""Set-up and teardown of an emulated network beside stock Mininet's: same wiring, same sandbox, same Open vSwitch.

    python benchmarks/bench_setup.py [--network swiss-t1 ...] [--runs 3] [--no-mininet] [--before CHECKOUT]
    python benchmarks/bench_setup.py --network manet:nodes=1000,seed=3 --network manet:nodes=2000,seed=3 --before DIR

Stock Mininet: Host, OVSSwitch on the same datapath (batched start), autoStaticArp; once with plain links, once with
TCLink at the links' rates, which is what the testbed's network does; on small networks only, for it takes a second a
switch. Before: an earlier testbed, whose packages lie in
CHECKOUT, in the same run; every set-up of ours and of it is a process of its own, which has to load Mininet where that
builds. Set-up begins with the first namespace and ends with the last switch; teardown is timed until no interface but
the loopback is left.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Times = tuple[float, float]
MOST_OF_BEFORE = 1.2
"""The set-up times of before that a change may cost at most."""
LARGE = "manet:nodes=115,seed=3"
MOST_STOCK_SWITCHES = 50


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "--network",
        action="append",
        help="catalogue names (default swiss-t1; and a large one, ours only)",
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--no-mininet",
        action="store_true",
        help=f"no stock Mininet (never above {MOST_STOCK_SWITCHES} switches)",
    )
    parser.add_argument(
        "--before", type=Path, help="a checkout of an earlier testbed, timed in the same run"
    )
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.one:
        print(*one(args.one))
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

        words = [sys.executable, __file__, *(sys.argv[1:] if argv is None else argv)]
        done = run_in_sandbox(words, timeout_s=4 * 3600)
        print(done.stdout, end="")
        print(done.stderr[-2000:] if done.returncode else "", end="", file=sys.stderr)
        return done.returncode
    for name in args.network or ["swiss-t1", LARGE]:
        measure(name, args.runs, stock=not args.no_mininet, before=args.before)
    words = [
        sys.executable,
        "-P",
        "-c",
        "import time; t = time.monotonic(); import mininet.net; print(time.monotonic() - t)",
    ]
    took = [
        float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
        for _ in range(args.runs)
    ]
    print(
        f"loading Mininet: {statistics.median(took):.3f} s, of which set-up hides what daemons and namespaces take"
    )
    return 0


def measure(name: str, runs: int, *, stock: bool, before: Path | None = None) -> None:
    """Alternate them, so that all meet the same load of the machine; print medians and their ratios."""
    from testbed.model.wiring import wire
    from topologies import load_network

    wiring = wire(load_network(name))
    stock = stock and len(wiring.switches) <= MOST_STOCK_SWITCHES
    root = Path(__file__).resolve().parents[1]
    kinds: dict[str, Callable[[Any], Times]] = {"testbed": lambda _: in_process(root, name)}
    if before is not None:
        kinds = {"before": lambda _: in_process(before.resolve(), name), **kinds}
    if stock:
        kinds = {
            "stock, unshaped": functools.partial(stock_mininet, shape=False),
            "stock, TCLink": stock_mininet,
            **kinds,
        }
    times: dict[str, list[Times]] = {kind: [] for kind in kinds}
    for _ in range(runs):
        for kind, run in kinds.items():
            times[kind].append(run(wiring))
    print(
        f"{name}: {len(wiring.hosts)} hosts, {len(wiring.switches)} switches, {len(wiring.cables)} cables, {runs} runs"
    )
    print(
        f"  {'':15} {'set-up s':>9} {'min':>6} {'max':>6}   {'teardown s':>10} {'min':>6} {'max':>6}"
    )
    medians = {}
    for kind, found in times.items():
        up, down = zip(*found, strict=True)
        medians[kind] = (statistics.median(up), statistics.median(down))
        print(
            f"  {kind:15} {medians[kind][0]:9.2f} {min(up):6.2f} {max(up):6.2f}   "
            f"{medians[kind][1]:10.2f} {min(down):6.2f} {max(down):6.2f}"
        )
    if stock:
        for kind in ("stock, unshaped", "stock, TCLink"):
            (up, down), (up0, down0) = medians["testbed"], medians[kind]
            print(
                f"  testbed / {kind:15} {up / up0:.3f} of its set-up, {down / down0:.3f} of its teardown"
            )
    if before is not None:
        ratio = medians["testbed"][0] / medians["before"][0]
        print(
            f"  testbed / before          {ratio:.3f} of its set-up; at most {MOST_OF_BEFORE} is accepted"
        )
    print(flush=True)


def in_process(checkout: Path, name: str) -> Times:
    """By the packages that lie there."""
    words = [sys.executable, "-P", __file__, "--one", name]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, check=True, timeout=3000
    )
    up, down = map(float, done.stdout.split()[-2:])
    return up, down


def one(name: str) -> Times:
    """Of the network of that name."""
    from testbed.model.wiring import wire
    from topologies import load_network

    return ours(wire(load_network(name)))


def ours(wiring: Any) -> Times:
    """Set-up and teardown of the testbed's network, switch daemons included."""
    from testbed.emulation.network.emulated_network import EmulatedNetwork

    net = EmulatedNetwork(wiring)
    began = time.monotonic()
    net.start()
    built = time.monotonic()
    net.stop()
    _wait_until_empty()
    return built - began, time.monotonic() - built


def stock_mininet(wiring: Any, *, shape: bool = True) -> Times:
    """The same with Mininet's own classes, on a private Open vSwitch that is already running (not counted)."""
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
        rate = wiring.network.link(*link).capacity_bps / 1e6 if link else None
        ports = {"port1": cable.a_port, "port2": cable.b_port}
        net.addLink(
            cable.a, cable.b, **ports, **({"bw": rate} if shape and rate and rate <= 1000 else {})
        )
    net.start()
    built = time.monotonic()
    net.stop()
    _wait_until_empty()
    took = time.monotonic() - built
    switches.stop()
    return built - began, took


def _wait_until_empty() -> None:
    """Until the interfaces of the network are gone (Open vSwitch keeps one of its own while it runs)."""
    from testbed.emulation.network.kernel.rtnetlink import Netlink

    limit = time.monotonic() + 60
    with Netlink() as netlink:
        while (
            set(netlink.interfaces()) - {"lo", "ovs-netdev", "ovs-system"}
            and time.monotonic() < limit
        ):
            time.sleep(0.005)


if __name__ == "__main__":
    sys.exit(main())
