"""Users' own programs through a tunnel of a session, while cables are cut."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

import testbed
from testbed.errors import InputError
from testbed.tunnel.emulated.tunnel_end import PACKETS

pytestmark = [pytest.mark.emulation, pytest.mark.unclocked]

ECHO = """
import socket
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.bind(("0.0.0.0", 7007))
while True:
    data, peer = own.recvfrom(2048)
    own.sendto(data, peer)
"""
ASK = """
import socket, sys, time
own, came, start = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), set(), time.monotonic()
def take(until):
    while (left := until - time.monotonic()) > 0:
        own.settimeout(left)
        try:
            came.add(int(own.recv(2048)))
        except TimeoutError:
            return
for n in range(int(sys.argv[2])):
    own.sendto(b"%d" % n, (sys.argv[1], 7007))
    take(start + 0.01 * (n + 1))
take(time.monotonic() + 1)
print(len(came))
"""


@pytest.fixture(scope="module")
def session() -> Iterator[testbed.Session]:
    with testbed.session("torus:3x3") as held:
        yield held


def asked(
    session: testbed.Session, address: str, count: int, *, source: str = "s0_0"
) -> subprocess.Popen[str]:
    words = [sys.executable, "-I", "-S", "-c", ASK, address, str(count)]
    return session.popen(source, words, end_point=True, stdout=subprocess.PIPE, text=True)


def test_no_echo_is_lost_while_cables_are_cut_and_without_code_some_are(
    session: testbed.Session,
) -> None:
    split = testbed.route("torus:3x3", "s0_0", "s1_1")
    cut = [
        link.label
        for i, link in enumerate(session.network.links)
        if link.source == "s0_0" and split.loads[i]
    ][:2]
    assert len(cut) == 2
    server = session.popen("s1_1", [sys.executable, "-I", "-S", "-c", ECHO], end_point=True)
    came = {}
    for mode in ("adaptive", "none"):
        with session.tunnel("s0_0", "s1_1", mode=mode) as tunnel:
            client = asked(session, tunnel.address("s1_1"), 250)
            for link in cut:
                time.sleep(0.5)
                session.fail(link)
                time.sleep(0.5)
                session.restore(link)
            came[mode] = int(client.communicate(timeout=60)[0])
            counters = tunnel.counters()
        result = tunnel.close()
        assert counters["s0_0"]["offered"] == 250 == len(result.offered["s0_0"])
        assert [name for name, _ in PACKETS] == list(result.delivered["s1_1"].dtype.names)
    server.kill()
    server.wait(10)
    assert came["adaptive"] == 250 and came["none"] < 250
    assert "tun" not in session.exec("s0_0", ["ip", "-o", "link"], end_point=True).stdout


def test_tunnels_of_one_host_do_not_meet_and_leave_no_device(
    session: testbed.Session, timely: Callable[..., None]
) -> None:
    with (
        session.tunnel("s0_0", "s1_1") as first,
        session.tunnel("s0_0", "s2_2", mode="static") as second,
    ):
        assert {first.addresses["s0_0"], second.addresses["s0_0"]}.isdisjoint(
            {first.addresses["s1_1"], second.addresses["s2_2"]}
        )
        for target, tunnel in (("s1_1", first), ("s2_2", second)):
            size = str(tunnel.mtu - 28)
            address = tunnel.addresses[target]

            def run(address: str = address, size: str = size) -> str | None:
                words = ["ping", "-n", "-q", "-c", "5", "-i", "0.05", "-W", "2", "-M", "do", "-s"]
                done = session.exec("s0_0", [*words, size, address], end_point=True)
                return None if " 5 received" in done.stdout else done.stdout + done.stderr

            timely(run)
        too_long = session.exec(
            "s0_0",
            ["ping", "-c", "1", "-M", "do", "-s", str(first.mtu - 27), first.addresses["s1_1"]],
            end_point=True,
        )
        assert too_long.returncode != 0
        listed = session.exec("s0_0", ["ip", "-o", "link"], end_point=True).stdout
        assert first.device in listed and second.device in listed
    assert "tun" not in session.exec("s0_0", ["ip", "-o", "link"], end_point=True).stdout


def test_a_route_for_the_way_back_leaves_the_way_there_as_it_is(session: testbed.Session) -> None:
    there, back = session.address("s0_1"), session.address("s1_2")

    def installed() -> list[str]:
        flows = session.exec(
            "s0_1",
            ["ovs-ofctl", "-O", "OpenFlow13", "--no-stats", "--no-names", "dump-flows", "s0_1"],
        ).stdout.splitlines()
        rules = [
            flow.split("priority=")[1]
            for flow in flows
            if f"nw_src={there},nw_dst={back},tp_src=" in flow
        ]
        return sorted(rules)

    session.install(testbed.route("torus:3x3", "s0_1", "s1_2"))
    before = installed()
    session.install(testbed.route("torus:3x3", "s1_2", "s0_1"))
    assert len(before) > 2 and installed() == before


def test_bad_tunnels_are_refused_in_a_line(session: testbed.Session) -> None:
    with pytest.raises(InputError, match="no host 's99'"):
        session.tunnel("s0_0", "s99")
    with pytest.raises(InputError, match="flush"):
        session.tunnel("s0_0", "s1_1", flush_s=1.0)
