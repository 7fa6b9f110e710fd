"""TCP next to a stream: iperf3 between the same two hosts, on the same links, at a given rate."""

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

_PORT = "5201"
_LISTENING_S = 5.0
_ENDING_S = 3.0


@contextmanager
def tcp_between(
    net: EmulatedNetwork,
    wiring: Wiring,
    ends: tuple[str, str],
    rate_bps: float,
    connections: int = 1,
) -> Iterator[JsonObject]:
    """TCP from the first of two end points to the second while the context lasts; afterwards the dictionary says what
    it carried.

    ``rate_bps`` is that of all ``connections`` together.

    ``background_bps`` requested, ``background_carried_bytes`` received in ``background_s``. Nothing where the rate is
    0. CapabilityError where iperf3 is not there or does not start.
    """
    carried: JsonObject = {}
    if rate_bps <= 0:
        yield carried
        return
    if shutil.which("iperf3") is None:
        raise CapabilityError(
            "background traffic needs iperf3; install it (sudo apt-get install iperf3)"
        )
    source, sink = (wiring.host_at(end) for end in ends)
    quiet: JsonObject = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.DEVNULL,
        "stdin": subprocess.DEVNULL,
    }
    server = net.run_in_host(sink.name, ["iperf3", "-s", "-1", "-J", "-p", _PORT], **quiet)
    client = None
    try:
        words = [
            "iperf3",
            "-c",
            sink.ip,
            "-p",
            _PORT,
            "-b",
            f"{rate_bps / connections:.0f}",
            "-t",
            "0",
            "-l",
            "1400",
        ]
        words += ["-P", str(connections)]
        client = _connected(net, source.name, words, quiet)
        yield carried
        carried |= {"background_bps": rate_bps}
    finally:
        if client is not None:
            client.terminate()
            client.wait(_ENDING_S)
        with contextlib.suppress(subprocess.TimeoutExpired):
            said, _ = server.communicate(timeout=_ENDING_S)
            carried |= _received(said)
        server.kill()
        server.wait()


def _connected(
    net: EmulatedNetwork, host: str, words: list[str], quiet: JsonObject
) -> subprocess.Popen[Any]:
    """The client, once it has not given up at once (its server may not listen yet)."""
    until = time.monotonic() + _LISTENING_S
    while time.monotonic() < until:
        client = net.run_in_host(host, words, **quiet | {"stdout": subprocess.DEVNULL})
        with contextlib.suppress(subprocess.TimeoutExpired):
            client.wait(0.5)
            continue
        return client
    raise CapabilityError(f"background traffic: iperf3 did not connect within {_LISTENING_S:g} s")


def _received(said: bytes) -> dict[str, float]:
    """Of the server's own report, which may list its last interval twice; nothing where it gave none."""
    try:
        intervals = {one["sum"]["start"]: one["sum"] for one in json.loads(said)["intervals"]}
        carried, until_s = (
            sum(int(one["bytes"]) for one in intervals.values()),
            max(one["end"] for one in intervals.values()),
        )
    except (ValueError, KeyError):
        return {"background_carried_bytes": 0}
    return {"background_carried_bytes": carried, "background_s": float(until_s)}
