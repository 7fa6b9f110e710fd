"""TCP traffic of iperf3 next to a stream, between the same two hosts and on the same links."""

import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.errors import CapabilityError
from testbed.model.wiring import Wiring
from topologies import JsonObject

# iperf3's default port. The stream uses another one.
_PORT = "5201"

# Time for the client to connect, because the server may not listen yet when the client starts.
_CONNECT_LIMIT_S = 5.0

# A client that has not ended after this time has connected.
_CLIENT_CHECK_S = 0.5

# Time for the client and the server to end.
_END_LIMIT_S = 3.0


@contextmanager
def tcp_between(
    net: EmulatedNetwork,
    wiring: Wiring,
    ends: tuple[str, str],
    rate_bps: float,
    connections: int = 1,
) -> Iterator[JsonObject]:
    """Send TCP traffic from one end point to another while the context is active.

    Args:
        net: The network.
        wiring: The network's hosts and cables.
        ends: The end point that sends and the one that receives.
        rate_bps: Rate of all connections together; 0 for no traffic.
        connections: Number of TCP connections.

    Yields:
        A dictionary that is filled when the context ends: ``background_bps`` (the requested rate),
        ``background_carried_bytes`` (received) and ``background_s`` (the time that it took). It
        stays empty if the rate is 0.

    Raises:
        CapabilityError: iperf3 is not installed, or does not connect.
    """
    traffic: JsonObject = {}
    if rate_bps <= 0:
        yield traffic
        return
    if shutil.which("iperf3") is None:
        raise CapabilityError(
            "background traffic needs iperf3; install it (sudo apt-get install iperf3)"
        )
    source = wiring.host_at(ends[0])
    sink = wiring.host_at(ends[1])
    streams: JsonObject = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.DEVNULL,
        "stdin": subprocess.DEVNULL,
    }
    server = net.run_in_host(sink.name, ["iperf3", "-s", "-1", "-J", "-p", _PORT], **streams)
    client = None
    try:
        argv = ["iperf3", "-c", sink.ip, "-p", _PORT]
        argv += ["-b", f"{rate_bps / connections:.0f}"]
        argv += ["-t", "0"]  # Until it is terminated.
        argv += ["-l", "1400"]
        argv += ["-P", str(connections)]
        client = _connected_client(net, source.name, argv, streams)
        yield traffic
        traffic["background_bps"] = rate_bps
    finally:
        if client is not None:
            client.terminate()
            client.wait(_END_LIMIT_S)
        # A server whose client never connected does not end by itself.
        with contextlib.suppress(subprocess.TimeoutExpired):
            report, _ = server.communicate(timeout=_END_LIMIT_S)
            traffic |= _received_traffic(report)
        server.kill()
        server.wait()


def _connected_client(
    net: EmulatedNetwork, host: str, argv: list[str], streams: JsonObject
) -> subprocess.Popen[Any]:
    """Start the client, again if it ends at once, and return it."""
    deadline_s = time.monotonic() + _CONNECT_LIMIT_S
    while time.monotonic() < deadline_s:
        client = net.run_in_host(host, argv, **streams | {"stdout": subprocess.DEVNULL})
        try:
            client.wait(_CLIENT_CHECK_S)
        except subprocess.TimeoutExpired:
            return client
    raise CapabilityError(
        f"background traffic: iperf3 did not connect within {_CONNECT_LIMIT_S:g} s"
    )


def _received_traffic(report: bytes) -> dict[str, float]:
    """Read the bytes received and the time from the server's JSON report.

    The report may list the last interval twice. Without a valid report, 0 bytes were received.
    """
    sums = {}
    try:
        for interval in json.loads(report)["intervals"]:
            total = interval["sum"]
            sums[total["start"]] = total
        received_bytes = sum(int(total["bytes"]) for total in sums.values())
        end_s = max(total["end"] for total in sums.values())
    except (ValueError, KeyError):
        return {"background_carried_bytes": 0}
    return {"background_carried_bytes": received_bytes, "background_s": float(end_s)}
