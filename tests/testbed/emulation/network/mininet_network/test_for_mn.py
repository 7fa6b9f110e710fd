"""The file for ``mn --custom``: Mininet's own ``mn`` builds our networks, its pings pass, and nothing of it is lost."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from testbed.emulation.network.mininet_network import for_mn
from testbed.model.wiring import wire
from topologies import load_network

pytestmark = [pytest.mark.emulation, pytest.mark.unclocked]
NEEDED = ("mn", "mnexec", "ifconfig", "telnet", "ovs-vsctl")
FILE = str(for_mn._FILE)
needs_mn = pytest.mark.skipif(
    not all(map(shutil.which, NEEDED)), reason=f"mn needs {', '.join(NEEDED)}"
)


def by_mn(words: list[str]) -> list[Any]:
    """mn's exit code and what it says, on switch daemons that run already, with a /tmp that it may clean up."""
    from testbed.emulation.network.open_vswitch.switches import PrivateSwitches, choose_datapath

    datapath = choose_datapath()
    private = PrivateSwitches(datapath)
    private.start()
    # mn --wait asks the database whether a switch is connected.
    settings = ["remove", "Open_vSwitch", ".", "other_config", "stats-update-interval"]
    subprocess.run(["ovs-vsctl", "--no-wait", *settings], check=True)
    words = [word.replace("DATAPATH", datapath) for word in words]
    command = [
        "unshare",
        "-m",
        "sh",
        "-c",
        'mount -t tmpfs tmpfs /tmp && exec "$@"',
        "sh",
        "mn",
        "--custom",
        FILE,
    ]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["HOME"] = environment["TMPDIR"]  # its clean-up deletes there, too
    done = subprocess.run(
        [*command, *words],
        capture_output=True,
        text=True,
        env=environment,
        stdin=subprocess.DEVNULL,
    )
    private.stop()
    return [done.returncode, done.stdout + done.stderr]


@needs_mn
@pytest.mark.parametrize(
    ("topology", "words"),
    [
        pytest.param(
            "torus,3x3",
            ["--controller", "testbed", "--switch", "ovs,datapath=DATAPATH", "--test", "pingpair"],
            marks=pytest.mark.long,
        ),
        pytest.param(  # half a minute until spanning trees let packets pass
            "torus,3x3",
            [
                "--controller",
                "none",
                "--switch",
                "ovsbr,stp=1,datapath=DATAPATH",
                "--test",
                "pingall",
            ],
            marks=pytest.mark.soak,
        ),
        (
            "fat_tree,2,2",
            ["--controller", "testbed", "--switch", "ovs,datapath=DATAPATH", "--test", "pingall"],
        ),
        pytest.param(
            "swiss_t1",
            ["--controller", "testbed", "--switch", "ovs,datapath=DATAPATH", "--test", "pingpair"],
            marks=pytest.mark.soak,  # 72 nodes, whose rules are followed below
        ),
        pytest.param(
            "optical_cloud",
            ["--controller", "testbed", "--switch", "ovs,datapath=DATAPATH", "--test", "pingpair"],
            marks=pytest.mark.soak,  # as swiss_t1
        ),
        pytest.param(
            "manet,nodes=8,degree=3",
            [
                "--controller",
                "testbed",
                "--switch",
                "ovs,datapath=DATAPATH",
                "--link",
                "tc",
                "--test",
                "none",
            ],
            marks=pytest.mark.long,
        ),
    ],
)
def test_mn_builds_and_stops(
    sandboxed: Callable[..., Any], topology: str, words: list[str]
) -> None:
    code, said = sandboxed(by_mn, ["--topo", topology, *words])
    assert code == 0, said[-2000:]
    assert "Caught exception" not in said, said[-2000:]
    assert re.search(r"completed in [\d.]+ seconds", said)
    if "none" not in words:
        assert "Results: 0% dropped" in said, said[-2000:]


@pytest.mark.parametrize("name", ["swiss-t1", "torus:3x4", "ring:5"])
def test_rules_lead_every_packet_to_its_host(name: str) -> None:
    """Follow the messages' output ports over the cables, from every switch to every host."""
    wiring = wire(load_network(name))
    ends = {(c.a, c.a_port): c.b for c in wiring.cables} | {
        (c.b, c.b_port): c.a for c in wiring.cables
    }
    towards: dict[tuple[str, str], int] = {}
    rules, length = for_mn._rules(name), len(for_mn._rule(1))
    for switch in wiring.switches:
        for message in re.findall(rb"(?s)" + b"." * length, rules[switch.dpid]):
            if int.from_bytes(message[8 + 22 : 8 + 24]) == 0x0800:
                towards[switch.name, message[8 + 12 : 8 + 18].hex(":")] = int.from_bytes(
                    message[-4:-2]
                )
    for host in wiring.hosts:
        for switch in wiring.switches:
            at = switch.name
            for _ in range(len(wiring.switches)):
                at = ends[at, towards[at, host.mac]] if at != host.name else at
            assert at == host.name


def test_globals_leave_mn_its_own() -> None:
    """mn --custom puts every global of the file over its own."""
    found: dict[str, Any] = {}
    exec(compile(for_mn._FILE.read_text(), FILE, "exec"), found, found)
    assert {name for name in found if not name.startswith("_")} == {"topos", "controllers"}
