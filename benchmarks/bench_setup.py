"""Set-up and teardown of an emulated network beside stock Mininet's: same wiring, same sandbox, same Open vSwitch.

    python benchmarks/bench_setup.py [--network swiss-t1] [--runs 3] [--no-mininet]

Stock Mininet: Host, OVSSwitch on the same datapath (batched start), autoStaticArp; once with plain links, once with
TCLink at the links' rates, which is what the testbed's network does.
Teardown is timed until no interface but the loopback is left.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Times = tuple[float, float]
LARGE = "manet:nodes=115,seed=3"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "--network", action="append", help="catalogue names (default swiss-t1; and a large one, ours only)"
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-mininet", action="store_true", help="time only ours")
    args = parser.parse_args(argv)
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
        done = run_in_sandbox(words, timeout_s=900)
        print(done.stdout, end="")
        print(done.stderr[-2000:] if done.returncode else "", end="", file=sys.stderr)
        return done.returncode
    for name in args.network or ["swiss-t1"]:
        measure(name, args.runs, stock=not args.no_mininet)
    if not args.network:
        measure(LARGE, args.runs, stock=False)  # stock Mininet takes minutes
    return 0


def measure(name: str, runs: int, *, stock: bool) -> None:
    """Alternate the two, so that both meet the same load of the machine; print medians and their ratio."""
    from testbed.model.wiring import wire
    from topologies import load_network

    wiring = wire(load_network(name))
    kinds: dict[str, Callable[[Any], Times]] = {"testbed": ours}
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
    print(f"  {'':15} {'set-up s':>9} {'min':>6} {'max':>6}   {'teardown s':>10} {'min':>6} {'max':>6}")
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
            print(f"  testbed / {kind:15} {up / up0:.3f} of its set-up, {down / down0:.3f} of its teardown")
    print(flush=True)


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
    net = Mininet(host=Host, switch=OVSSwitch, link=TCLink if shape else Link, controller=None, autoStaticArp=True)
    for switch in wiring.switches:
        net.addSwitch(switch.name, dpid=f"{switch.dpid:016x}", datapath=datapath, protocols="OpenFlow13", batch=True)
    for host in wiring.hosts:
        net.addHost(host.name, ip=f"{host.ip}/8", mac=host.mac)
    for cable in wiring.cables:
        link = cable.forward or cable.backward
        rate = wiring.network.link(*link).capacity_bps / 1e6 if link else None
        ports = {"port1": cable.a_port, "port2": cable.b_port}
        net.addLink(cable.a, cable.b, **ports, **({"bw": rate} if shape and rate and rate <= 1000 else {}))
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
        while set(netlink.interfaces()) - {"lo", "ovs-netdev", "ovs-system"} and time.monotonic() < limit:
            time.sleep(0.005)


if __name__ == "__main__":
    sys.exit(main())
