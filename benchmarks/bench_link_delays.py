"""Measures link delays by the relay: additional waiting time, and packets per second.

    python benchmarks/bench_link_delays.py [--seconds 4] [--out benchmarks/link_delays.jsonl]

There are two switches, each with the same number of hosts. The cable of every host delays what the
host sends. Therefore each direction of a pair of hosts crosses one delayed link, and an echo
crosses two. In cases without switches, the two hosts of a pair are connected by a cable, so that
only the relay limits the traffic.

First echoes are sent, at 100 per second, while there is no other traffic. Then every host of one
side sends UDP at 90 % of its link. A row of the output has the packets that arrived, how late the
relay was (for 99 of 100 packets, and for the latest one), the packets that it missed, and whether a
run over these links would be valid. If the kernel has netem, netem is measured instead of the
relay. ``load`` is the load of the machine over 1, 5 and 15 minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Case(NamedTuple):
    """A measured case.

    Attributes:
        delay_s: Delay of a link in seconds.
        link_bps: Rate of a host's link in bit/s.
        pairs: Number of pairs of hosts.
        packet_bytes: Size of a UDP packet.
        switches: Number of switches between the hosts of a pair: 2 or 0.
    """

    delay_s: float
    link_bps: float
    pairs: int
    packet_bytes: int
    switches: int


CASES = (
    Case(0.0, 10e6, 1, 1400, 2),
    Case(0.0005, 10e6, 1, 1400, 2),
    Case(0.001, 10e6, 1, 1400, 2),
    Case(0.002, 10e6, 1, 1400, 2),
    Case(0.005, 10e6, 1, 1400, 2),
    Case(0.01, 10e6, 1, 1400, 2),
    Case(0.05, 10e6, 1, 1400, 2),
    Case(0.2, 10e6, 1, 1400, 2),
    Case(0.0, 2e6, 8, 1400, 2),
    Case(0.01, 2e6, 8, 1400, 2),
    Case(0.0, 100e6, 1, 1400, 0),
    Case(0.01, 100e6, 1, 1400, 0),
    Case(0.01, 200e6, 1, 1400, 0),
    Case(0.0, 20e6, 1, 200, 0),
    Case(0.01, 10e6, 1, 200, 0),
    Case(0.01, 20e6, 1, 200, 0),
    Case(0.01, 40e6, 1, 200, 0),
    Case(0.01, 5e6, 8, 200, 0),
)

# How often a case is repeated at most, if iperf3 gives up because the machine is busy.
REPEATS = 3
# Bytes of the headers of a UDP packet: Ethernet, IP and UDP.
HEADER_BYTES = 42
# Share of the link rate at which UDP is sent.
UDP_SHARE = 0.9

# Starts a program in a host, from the name of the host and the arguments.
StartProgram = Callable[[str, list[str]], subprocess.Popen[str]]


def main(argv: Sequence[str] | None = None) -> int:
    summary = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="duration of UDP in each case (default 4)"
    )
    parser.add_argument("--out", type=Path, help="file for the rows, as JSON objects")
    parser.add_argument(
        "--cases", type=int, nargs="*", help="numbers of the cases, from 0 (default: all)"
    )
    arguments = parser.parse_args(argv)
    from testbed.emulation.sandbox.sandbox import in_sandbox

    if not in_sandbox():
        return run_again_in_sandbox(sys.argv[1:] if argv is None else argv)
    rows = []
    print(
        "delay ms  Mbit/s x pairs  bytes  RTT ms min/mean/max    packets/s arrived of sent   "
        "late ms 99 %/all  counts"
    )
    for number in arguments.cases or range(len(CASES)):
        row = measure_with_repeats(CASES[number], arguments.seconds)
        rows.append(row)
        if arguments.out:
            arguments.out.write_text("".join(json.dumps(stored) + "\n" for stored in rows))
        print(line_of(row), flush=True)
    return 0


def run_again_in_sandbox(argv: Sequence[str]) -> int:
    """Run this program in a sandbox, print its output, and return its exit code."""
    from testbed.emulation.machine.capabilities import emulation_problem

    obstacle = emulation_problem()
    if obstacle is not None:
        print(f"link delays: not measured, {obstacle}")
        return 0
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.helpers.sandboxes import run_in_sandbox

    process = run_in_sandbox([sys.executable, __file__, *argv], timeout_s=900)
    print(process.stdout, end="")
    if process.returncode:
        print(process.stderr[-2000:], end="", file=sys.stderr)
    return process.returncode


def line_of(row: dict[str, Any]) -> str:
    """Return the line of a row in the table."""
    rtts_ms = "/".join(f"{rtt_ms:.2f}" for rtt_ms in row["rtt_ms"])
    late_ms, latest_ms = row["late_ms"]
    return (
        f"{1e3 * row['delay_s']:8.3g}  {row['link_bps'] / 1e6:6.3g} x {row['pairs']:<5} "
        f"{row['packet_bytes']:6}  {rtts_ms:21}  "
        f"{row['arrived_pps']:9.0f} of {row['sent_pps']:<7.0f}"
        f"{late_ms:13.2f}/{latest_ms:.2f}  {row['problem'] or 'yes'}"
    )


def measure_with_repeats(case: Case, seconds: float) -> dict[str, Any]:
    """Measure a case, and repeat it if iperf3 gives up."""
    for _ in range(REPEATS):
        try:
            return measure(case, seconds)
        except (KeyError, ValueError):
            # The output of iperf3 is incomplete.
            continue
    return measure(case, seconds)


def network_of(case: Case) -> Any:
    """Return the network of a case.

    Hosts a0, b0, a1, b1 and so on are connected to the switches a and b by links with the delay. If
    there are no switches, the two hosts of a pair are connected by a cable that delays both
    directions.
    """
    from topologies.network import Link, Network, Node

    if not case.switches:
        return network_of_cables(case)
    core_bps = 2 * case.pairs * case.link_bps
    nodes = [Node(id=side, kind="switch") for side in "ab"]
    links = [
        Link(source="a", target="b", capacity_bps=core_bps),
        Link(source="b", target="a", capacity_bps=core_bps),
    ]
    for number in range(case.pairs):
        for side in "ab":
            host = f"{side}{number}"
            nodes.append(Node(id=host, kind="host"))
            links.append(
                Link(source=host, target=side, capacity_bps=case.link_bps, delay_s=case.delay_s)
            )
            links.append(Link(source=side, target=host, capacity_bps=2 * case.link_bps))
    return Network(name=f"{case.pairs} pairs", nodes=tuple(nodes), links=tuple(links))


def network_of_cables(case: Case) -> Any:
    """Return a network of pairs of hosts that are connected by a cable."""
    from topologies.network import Link, Network, Node

    nodes = []
    links = []
    for number in range(case.pairs):
        first = f"a{number}"
        second = f"b{number}"
        nodes += [Node(id=first, kind="host"), Node(id=second, kind="host")]
        for source, target in ((first, second), (second, first)):
            links.append(
                Link(
                    source=source,
                    target=target,
                    capacity_bps=case.link_bps,
                    delay_s=case.delay_s,
                )
            )
    return Network(name=f"{case.pairs} cables", nodes=tuple(nodes), links=tuple(links))


def measure(case: Case, seconds: float) -> dict[str, Any]:
    """Measure a case on a network of its own.

    Args:
        case: The case.
        seconds: Duration of UDP in seconds.

    Raises:
        KeyError, ValueError: The output of iperf3 is incomplete.
    """
    from testbed.emulation.control.base_rules import install_shortest_paths
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.model.wiring import wire

    wiring = wire(network_of(case))
    with EmulatedNetwork(wiring) as net:
        install_shortest_paths(wiring)

        def start(host: str, argv: list[str]) -> subprocess.Popen[str]:
            return net.run_in_host(
                host, argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )

        # The switches learn the flow from the first echoes.
        ping(start, net.host("b0").ip, count=3)
        net.forget_lateness()
        rtts_ms = ping(start, net.host("b0").ip, count=200)
        addresses = [net.host(f"b{number}").ip for number in range(case.pairs)]
        servers = start_servers(start, case.pairs)
        net.forget_lateness()
        sent, lost = send_udp(start, case, addresses, seconds)
        for server in servers:
            server.kill()
            server.communicate()
        reports = list(net.impairment_reports().values())
    means = "none"
    if reports:
        means = "relay"
    elif case.delay_s:
        means = "netem"
    late_s = max((report.late_s for report in reports), default=0.0)
    latest_s = max((report.latest_s for report in reports), default=0.0)
    problems = [report.problem() for report in reports]
    return {
        **case._asdict(),
        "means": means,
        "rtt_ms": rtts_ms,
        "sent_pps": round(sent / seconds),
        "arrived_pps": round((sent - lost) / seconds),
        "late_ms": [round(1e3 * late_s, 3), round(1e3 * latest_s, 3)],
        "missed": sum(report.missed for report in reports),
        "load": [round(load, 1) for load in os.getloadavg()],
        "problem": next((problem for problem in problems if problem is not None), None),
    }


def ping(start: StartProgram, address: str, *, count: int) -> list[float]:
    """Send echoes from host a0, and return the shortest, mean and longest round trip in ms."""
    argv = ["ping", "-n", "-q", "-c", str(count), "-i", "0.01", address]
    output, _ = start("a0", argv).communicate()
    times = re.search(r"= ([\d.]+)/([\d.]+)/([\d.]+)/", output)
    return [float(time_ms) for time_ms in times.groups()] if times else []


def start_servers(start: StartProgram, pairs: int) -> list[subprocess.Popen[str]]:
    """Start an iperf3 server in each host b0, b1 and so on, and wait until all listen."""
    servers = []
    for number in range(pairs):
        servers.append(start(f"b{number}", ["iperf3", "-s", "-1", "--forceflush"]))
    for server in servers:
        assert server.stdout is not None
        while "listening" not in server.stdout.readline():
            pass
    return servers


def send_udp(
    start: StartProgram, case: Case, addresses: Sequence[str], seconds: float
) -> tuple[int, int]:
    """Send UDP from each host a0, a1 and so on, and return the number of sent and lost packets.

    Args:
        start: Starts a program in a host.
        case: The case.
        addresses: Address to which each host sends.
        seconds: Duration in seconds.
    """
    payload_share = case.packet_bytes / (case.packet_bytes + HEADER_BYTES)
    rate_bps = UDP_SHARE * case.link_bps * payload_share
    clients = []
    for number, address in enumerate(addresses):
        argv = ["iperf3", "-c", address, "-t", f"{seconds:g}", "-J"]
        argv += ["-u", "-b", f"{rate_bps:.0f}", "-l", str(case.packet_bytes)]
        clients.append(start(f"a{number}", argv))
    sent = 0
    lost = 0
    for client in clients:
        output, _ = client.communicate()
        total = json.loads(output)["end"]["sum"]
        sent += total["packets"]
        lost += total["lost_packets"]
    return sent, lost


if __name__ == "__main__":
    sys.exit(main())
