"""Two machines with WireGuard between them: what is seen on the underlay, a verdict as without, a wrong key, and
nothing left.

Not marked ``emulation``: where neither kernel nor wireguard-go is there, a machine that has all that CI asks for skips
these tests.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from testbed.emulation.machine.capabilities import emulation_problem
from testbed.emulation.machine.encryption import encryption_means
from testbed.emulation.sandbox.sandbox import probe_sandbox
from tests.helpers.processes import descendants, kept_namespaces, left_of, machine_worker

OBSTACLE = emulation_problem() or probe_sandbox(clock_offset_s=1) or encryption_means()[1]
pytestmark = pytest.mark.skipif(OBSTACLE is not None, reason=str(OBSTACLE))
PLACE = {"machines": [["s0", "s1"], ["s2", "s3"]]}
SECRET = b"in the clear!"
TESTBED = [sys.executable, "-m", "testbed.cli"]
STREAM = (
    "stream",
    "ring:4",
    "--from",
    "s0",
    "--to",
    "s2",
    "--packet-rate",
    "200",
    "--machines",
    "2",
    "--encrypt",
    "--json",
)


def on_the_underlay() -> dict[str, Any]:
    """Pings over crossing cables, plain and encrypted, and what was seen of each at a machine's port of the underlay
    meanwhile."""
    from dataclasses import replace

    from testbed.machines.adapters.cluster import machines_up
    from testbed.machines.adapters.local_machines import port_of
    from testbed.machines.machines_request import MachinesRequest
    from testbed.machines.tunnel_plan import tunnel_port
    from testbed.model.wiring import wire
    from topologies import load_network

    wiring = wire(load_network("ring:4"), ["s0", "s2"])
    request = MachinesRequest(count=2, place=PLACE, encrypt=True)
    found: dict[str, Any] = {}
    with machines_up(request) as machines:
        secret = machines.carriers
        port = tunnel_port(machines.run)
        # the rival: the same cables on the underlay itself, by a port that WireGuard has not
        plain = tuple(
            replace(
                one,
                interface=facts.underlay,
                address=facts.address,
                mtu=facts.mtu,
                port=port + 10_002,
                framed=True,
            )
            for one, facts in zip(secret, machines.facts, strict=True)
        )
        for name, carriers in (("plain", plain), ("encrypted", secret)):
            machines.carriers = carriers
            with Seen(port_of(0)) as seen:
                code = pinged(machines, wiring, request)
            found[name] = {
                "code": code,
                "secret": sum(SECRET in frame for frame in seen.frames),
                "tunnels": seen.datagrams(carriers[0].port),
                "wireguard": seen.datagrams(port),
            }
        found["by"] = list(machines.encrypted_by)
    return found


class Seen:
    """Frames that pass an interface while the block lasts."""

    def __init__(self, interface: str) -> None:
        import socket
        import threading

        self.frames: list[bytes] = []
        self._sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
        self._sock.bind((interface, 3))
        self._sock.settimeout(0.1)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def _read(self) -> None:
        while not self._over.is_set():
            with suppress(TimeoutError):
                self.frames.append(self._sock.recv(65536))
        self._sock.setblocking(False)
        with suppress(BlockingIOError):  # what had come by the end
            while True:
                self.frames.append(self._sock.recv(65536))

    def datagrams(self, port: int) -> int:
        """To that UDP port."""
        return sum(
            frame[12:14] == b"\x08\x00" and frame[23] == 17 and frame[36:38] == port.to_bytes(2)
            for frame in self.frames
        )

    def __enter__(self) -> Seen:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._sock.close()


def pinged(machines: Any, wiring: Any, request: Any) -> int:
    """Exit code of ten pings with the secret from a host on one machine to one on the other."""
    from testbed.machines.adapters.distributed_network import distributed_network, placement_of
    from testbed.machines.adapters.remote_program import programs_in_hosts
    from testbed.machines.adapters.rpc_programs import add_all_neighbours

    target = next(host.ip for host in wiring.hosts if host.node == "s2")
    argv = [
        "ping",
        "-q",
        "-c",
        "10",
        "-i",
        "0.05",
        "-w",
        "60",
        "-s",
        "200",
        "-p",
        SECRET.hex(),
        target,
    ]
    with distributed_network(
        machines, wiring, placement_of(machines, wiring, request), mtu=1400, controlled=False
    ) as network:
        machines.all(add_all_neighbours)
        asked = {"host": "s0", "argv": argv, "end_point": True}
        (program,) = programs_in_hosts(network, [(network.machine_of("s0"), asked)])
        code = program.wait(90)
        program.close()
    assert code is not None
    return code


def test_underlay_shows_traffic_only_without_encryption(
    sandboxed: Callable[..., Any],
) -> None:
    found = sandboxed(on_the_underlay)
    plain, encrypted = found["plain"], found["encrypted"]
    assert plain["code"] == encrypted["code"] == 0
    assert plain["secret"] >= 20 and plain["tunnels"] >= 20
    assert encrypted["secret"] == encrypted["tunnels"] == 0
    assert encrypted["wireguard"] >= 20
    assert set(found["by"]) <= {"kernel", "wireguard-go"} and len(found["by"]) == 2


def streamed(encrypt: bool) -> dict[str, Any]:
    """A stream with a crossing cable cut, judged; and how many of its packets could be read at a machine's port of the
    underlay."""
    import threading

    from testbed.errors import InvalidRunError
    from testbed.faults.fault import Fault
    from testbed.machines.adapters.local_machines import port_of
    from testbed.machines.machines_request import MachinesRequest
    from testbed.machines.tunnel_plan import tunnel_port
    from testbed.stream.emulated.fabric import EmulatedStreamFabric
    from testbed.stream.judgement.streams import judge_stream
    from testbed.stream.workload import stream_plan

    plan = stream_plan(
        "ring:4",
        "s0",
        "s2",
        faults=(Fault(link=("s1", "s2", 0), kind="down", start_s=1.2, stop_s=1.9),),
        duration_s=3.0,
        rate_pps=300,
        playback_s=0.8,
        hold_s=1.0,
    )
    seen: list[Seen] = []
    ports: list[int] = []

    def begin(platform: Any) -> None:
        ports.append(tunnel_port(platform.machines.run))
        seen.append(Seen(port_of(0)))
        seen[0].__enter__()
        threading.Timer(2.0, seen[0].__exit__).start()

    fabric = EmulatedStreamFabric(machines=MachinesRequest(count=2, place=PLACE, encrypt=encrypt))
    fabric.on_start = begin
    run = fabric.run(plan)
    session = judge_stream(plan, run)
    if session.verdict.invalid is not None:
        raise InvalidRunError(session.verdict.invalid)
    # inner UDP datagrams of the stream's port behind a VXLAN header
    inner = sum(
        frame[36:38] == ports[0].to_bytes(2) and frame[42:46] == b"\x08\0\0\0"
        for frame in seen[0].frames
    )
    return {
        "checks": [(c.name, c.passed) for c in session.verdict.checks],
        "block_sizes": [
            (f.measured_block_size, f.predicted_block_size) for f in session.analysis.faults
        ],
        "vxlan": inner,
        "to_the_port": seen[0].datagrams(ports[0]),
        "by": run.counters["crossing_encrypted_by"],
    }


@pytest.mark.soak
def test_a_stream_has_the_same_verdict_encrypted(sandboxed: Callable[..., Any]) -> None:
    plain, encrypted = (sandboxed(streamed, encrypt) for encrypt in (False, True))
    assert encrypted["checks"] == plain["checks"] and all(passed for _, passed in plain["checks"])
    assert encrypted["block_sizes"] == plain["block_sizes"]
    assert plain["vxlan"] > 100 and plain["by"] == []
    assert encrypted["vxlan"] == 0 and encrypted["to_the_port"] > 100 and len(encrypted["by"]) == 2


def with_a_wrong_key() -> str:
    from dataclasses import replace

    from testbed.errors import CapabilityError
    from testbed.machines.adapters import wireguard as key_exchange
    from testbed.machines.adapters.cluster import machines_up
    from testbed.machines.machines_request import MachinesRequest

    told = key_exchange.peers_of
    strange = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAk="

    def wrong(number: int, *rest: Any) -> Any:
        """Of the last machine, the others are told a key that it has not."""
        peers = told(number, *rest)
        return peers if number == 2 else (*peers[:-1], replace(peers[-1], public_key=strange))

    key_exchange.peers_of = wrong
    key_exchange.HANDSHAKE_S = 8.0
    try:
        with machines_up(MachinesRequest(count=3, encrypt=True)):
            return "nothing"
    except CapabilityError as error:
        return str(error)


@pytest.mark.soak
def test_a_machine_with_another_key_than_it_told_is_not_heard_and_named(
    sandboxed: Callable[..., Any],
) -> None:
    said = sandboxed(with_a_wrong_key)
    assert said.startswith("--encrypt: machine-2 is not heard by machine-0, machine-1"), said
    assert "machine-0 is not heard by machine-1" not in said


@pytest.mark.soak
@pytest.mark.parametrize(
    "how", ["worker killed", "command killed", "wireguard-go killed", "interrupted"]
)
def test_wireguard_ends_with_its_machine(how: str, tmp_path: Path) -> None:
    run = subprocess.Popen(
        [*TESTBED, *STREAM, "--faults", "none", "--duration", "30", "--results", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 90
    there = {run.pid: ""}
    # Each machine has a helper that starts its processes, and the end of the stream that it started.
    while sum("fork_server" in words for words in there.values()) < 4:
        assert run.poll() is None and time.monotonic() < until, run.communicate()
        time.sleep(0.2)
        there = descendants(run.pid)
    time.sleep(1.0)
    there = descendants(run.pid)
    programs = [pid for pid, words in there.items() if "wireguard-go --foreground wg" in words]
    if not programs:
        run.kill()
        run.communicate()
        pytest.skip("this kernel has its own WireGuard: there is no process")
    made = kept_namespaces(there, os.getpid())
    victim = {
        "worker killed": machine_worker(there, "machine-1"),
        "wireguard-go killed": programs[0],
    }.get(how, run.pid)
    os.kill(victim, signal.SIGINT if how == "interrupted" else signal.SIGKILL)
    out, err = run.communicate(timeout=60)
    if how.startswith(("worker", "wireguard")):
        assert run.returncode == 4, err
        assert "machine-" in json.loads(out)["invalid"] and "has" in err
    until = time.monotonic() + 10
    left: Any = None
    while time.monotonic() < until and any(
        Path(f"/proc/{pid}").exists() for pid in there if pid != run.pid
    ):
        time.sleep(0.2)
    left = left_of(there, made, os.getpid())
    assert left == ([], set())
