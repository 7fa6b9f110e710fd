"""Link delays by the relay: how late it forwards packets, and how many packets per second.

    python benchmarks/bench_link_delays.py [--seconds 4] [--out benchmarks/link_delays.jsonl]

There are two switches with a number of hosts each. The cable of every host delays the packets that
the host sends, so each direction of a pair crosses one delayed link, and an echo crosses two.
Without switches, the hosts of a pair have a cable between them, so that only the relay limits the
rate. First there are 100 echoes per second and nothing else. Then every host of one side sends UDP
at 90 % of the rate of its link, with packets of the given size.

A row has the packets that arrived, by how much the relay was late (for 99 of 100 packets, and for
the latest), the packets that it missed, and whether a run over these links would be valid. ``load``
is the load of the machine over 1, 5 and 15 minutes. On a kernel with netem, netem is measured.
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
from typing import Any

# Delay in seconds, rate of a host's link in bit/s, pairs of hosts, size of a UDP packet in bytes,
# and number of switches between the hosts of a pair.
CASES = (
    (0.0, 10e6, 1, 1400, 2),
    (0.0005, 10e6, 1, 1400, 2),
    (0.001, 10e6, 1, 1400, 2),
    (0.002, 10e6, 1, 1400, 2),
    (0.005, 10e6, 1, 1400, 2),
    (0.01, 10e6, 1, 1400, 2),
    (0.05, 10e6, 1, 1400, 2),
    (0.2, 10e6, 1, 1400, 2),
    (0.0, 2e6, 8, 1400, 2),
    (0.01, 2e6, 8, 1400, 2),
    (0.0, 100e6, 1, 1400, 0),
    (0.01, 100e6, 1, 1400, 0),
    (0.01, 200e6, 1, 1400, 0),
    (0.0, 20e6, 1, 200, 0),
    (0.01, 10e6, 1, 200, 0),
    (0.01, 20e6, 1, 200, 0),
    (0.01, 40e6, 1, 200, 0),
    (0.01, 5e6, 8, 200, 0),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the cases in a sandbox, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="duration of UDP in each case (default: 4)"
    )
    parser.add_argument("--out", type=Path, help="write the rows to this file")
    parser.add_argument(
        "--cases", type=int, nargs="*", help="numbers of cases, from 0 (default: all)"
    )
    args = parser.parse_args(argv)
    from testbed.emulation.machine.capabilities import emulation_problem
    from testbed.emulation.sandbox.sandbox import in_sandbox

    if not in_sandbox():
        obstacle = emulation_problem()
        if obstacle is not None:
            print(f"link delays: not measured, {obstacle}")
            return 0
        sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

        from tests.helpers.sandboxes import run_in_sandbox

        arguments = sys.argv[1:] if argv is None else argv
        completed = run_in_sandbox([sys.executable, __file__, *arguments], timeout_s=900)
        print(completed.stdout, end="")
        if completed.returncode:
            print(completed.stderr[-2000:], end="", file=sys.stderr)
        return completed.returncode
    print(
        "delay ms  Mbit/s x pairs  bytes  RTT ms min/mean/max    packets/s arrived of sent"
        "   late ms 99 %/all  counts"
    )
    lines = ""
    for number in args.cases or range(len(CASES)):
        row = measured_with_retries(*CASES[number], args.seconds)
        lines += json.dumps(row) + "\n"
        if args.out:
            args.out.write_text(lines)
        print(row_text(row), flush=True)
    return 0


def row_text(row: dict[str, Any]) -> str:
    """Return a row of the table."""
    rtt_ms = "/".join(f"{value:.2f}" for value in row["rtt_ms"])
    late_99, latest = row["late_ms"]
    return (
        f"{1e3 * row['delay_s']:8.3g}  {row['link_bps'] / 1e6:6.3g} x {row['pairs']:<5} "
        f"{row['packet_bytes']:6}  {rtt_ms:21}  {row['arrived_pps']:9.0f} of "
        f"{row['sent_pps']:<7.0f}{late_99:13.2f}/{latest:.2f}  {row['problem'] or 'yes'}"
    )


def measured_with_retries(*case: Any) -> dict[str, Any]:
    """Return the row of a case, and retry it if iperf3 has failed because the machine is busy."""
    for _ in range(3):
        try:
            return measured(*case)
        except (KeyError, ValueError):
            continue
    return measured(*case)


def pairs_of_hosts(pairs: int, link_bps: float, delay_s: float, switches: int) -> Any:
    """Return the network of pairs of hosts a0, b0, a1, b1, ...

    Args:
        pairs: Number of pairs.
        link_bps: Rate of a host's link.
        delay_s: Delay of the link from a host; without switches, of the cable in both directions.
        switches: 2 for switches a and b with the hosts, 0 for a cable between the hosts of a pair.
    """
    from topologies.network import Link, Network, Node

    nodes = []
    links = []
    if not switches:
        for number in range(pairs):
            a = f"a{number}"
            b = f"b{number}"
            nodes += [Node(id=a, kind="host"), Node(id=b, kind="host")]
            links.append(Link(source=a, target=b, capacity_bps=link_bps, delay_s=delay_s))
            links.append(Link(source=b, target=a, capacity_bps=link_bps, delay_s=delay_s))
        return Network(name=f"{pairs} cables", nodes=tuple(nodes), links=tuple(links))
    trunk_bps = 2 * pairs * link_bps
    nodes += [Node(id="a", kind="switch"), Node(id="b", kind="switch")]
    links.append(Link(source="a", target="b", capacity_bps=trunk_bps))
    links.append(Link(source="b", target="a", capacity_bps=trunk_bps))
    for number in range(pairs):
        for side in "ab":
            host = f"{side}{number}"
            nodes.append(Node(id=host, kind="host"))
            links.append(Link(source=host, target=side, capacity_bps=link_bps, delay_s=delay_s))
            links.append(Link(source=side, target=host, capacity_bps=2 * link_bps))
    return Network(name=f"{pairs} pairs", nodes=tuple(nodes), links=tuple(links))


def measured(
    delay_s: float, link_bps: float, pairs: int, packet_bytes: int, switches: int, seconds: float
) -> dict[str, Any]:
    """Run a case on a new network, and return its row.

    Args:
        delay_s: Delay of a host's link.
        link_bps: Rate of a host's link.
        pairs: Number of pairs of hosts.
        packet_bytes: Size of a UDP packet.
        switches: Number of switches between the hosts of a pair.
        seconds: Duration of UDP.
    """
    from testbed.emulation.control.base_rules import install_shortest_paths
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.model.wiring import wire

    wiring = wire(pairs_of_hosts(pairs, link_bps, delay_s, switches))
    with EmulatedNetwork(wiring) as net:
        install_shortest_paths(wiring)

        def start(host: str, argv: list[str]) -> subprocess.Popen[str]:
            return net.run_in_host(
                host, argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )

        ping = ["ping", "-n", "-q", "-i", "0.01", "-c"]
        # The switches learn the flow.
        start("a0", [*ping, "3", net.host("b0").ip]).communicate()
        net.forget_lateness()
        output = start("a0", [*ping, "200", net.host("b0").ip]).communicate()[0]
        rtt = re.search(r"= ([\d.]+)/([\d.]+)/([\d.]+)/", output)
        # A packet has 42 bytes of headers.
        udp_bps = 0.9 * link_bps * packet_bytes / (packet_bytes + 42)
        udp = ["-u", "-b", f"{udp_bps:.0f}", "-l", str(packet_bytes), "-t", f"{seconds:g}"]
        sent, lost = udp_packets(net, start, pairs, udp)
        reports = net.impairment_reports().values()
    means = "none"
    if reports:
        means = "relay"
    elif delay_s:
        means = "netem"
    late_s = max((report.late_s for report in reports), default=0.0)
    latest_s = max((report.latest_s for report in reports), default=0.0)
    problems = [report.problem() for report in reports]
    return {
        "delay_s": delay_s,
        "link_bps": link_bps,
        "pairs": pairs,
        "packet_bytes": packet_bytes,
        "switches": switches,
        "means": means,
        "rtt_ms": [float(value) for value in rtt.groups()] if rtt else [],
        "sent_pps": round(sent / seconds),
        "arrived_pps": round((sent - lost) / seconds),
        "late_ms": [round(1e3 * late_s, 3), round(1e3 * latest_s, 3)],
        "missed": sum(report.missed for report in reports),
        "load": [round(average, 1) for average in os.getloadavg()],
        "problem": next((problem for problem in problems if problem is not None), None),
    }


def udp_packets(
    net: Any, start: Callable[[str, list[str]], subprocess.Popen[str]], pairs: int, udp: list[str]
) -> tuple[int, int]:
    """Send UDP from host a of each pair to host b, and return the packets sent and lost.

    Args:
        net: The network.
        start: Starts a program in a host.
        pairs: Number of pairs of hosts.
        udp: Arguments of the client iperf3.
    """
    servers = [start(f"b{k}", ["iperf3", "-s", "-1", "--forceflush"]) for k in range(pairs)]
    for server in servers:
        assert server.stdout is not None
        while "listening" not in server.stdout.readline():
            pass
    net.forget_lateness()
    clients = []
    for k in range(pairs):
        clients.append(start(f"a{k}", ["iperf3", "-c", net.host(f"b{k}").ip, "-J", *udp]))
    sent = 0
    lost = 0
    for client in clients:
        totals = json.loads(client.communicate()[0])["end"]["sum"]
        sent += totals["packets"]
        lost += totals["lost_packets"]
    for server in servers:
        server.kill()
        server.communicate()
    return sent, lost


if __name__ == "__main__":
    sys.exit(main())
