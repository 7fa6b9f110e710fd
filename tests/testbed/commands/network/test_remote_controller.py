"""`testbed up --controller remote`: switches obey a learning switch of os-ken's that runs on the machine, outside the
sandbox, or in a host's stead inside it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.emulation.control.remote_controller import parse_controller
from testbed.errors import InputError
from tests.helpers.paths import ROOT
from tests.helpers.warm import TESTBED, run

LEARNING = """
import os, sys
os.environ["OSKEN_HUB_TYPE"] = "native"
from os_ken import cfg, flags
from os_ken.base.app_manager import AppManager, OSKenApp
from os_ken.controller import controller, ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib.packet import ethernet, packet
from os_ken.ofproto import ofproto_v1_3


class Learning(OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]
    ports = {}

    def add(self, switch, priority, match, actions):
        parser, of = switch.ofproto_parser, switch.ofproto
        done = [parser.OFPInstructionActions(of.OFPIT_APPLY_ACTIONS, actions)]
        switch.send_msg(parser.OFPFlowMod(datapath=switch, priority=priority, match=match, instructions=done))

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def came(self, event):
        switch = event.msg.datapath
        parser, of = switch.ofproto_parser, switch.ofproto
        self.add(switch, 0, parser.OFPMatch(), [parser.OFPActionOutput(of.OFPP_CONTROLLER, of.OFPCML_NO_BUFFER)])

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def learn(self, event):
        message, switch = event.msg, event.msg.datapath
        parser, of, port = switch.ofproto_parser, switch.ofproto, message.match["in_port"]
        frame = packet.Packet(message.data).get_protocols(ethernet.ethernet)[0]
        known = self.ports.setdefault(switch.id, {})
        known[frame.src] = port
        out = known.get(frame.dst, of.OFPP_FLOOD)
        actions = [parser.OFPActionOutput(out)]
        if out != of.OFPP_FLOOD:
            self.add(switch, 1, parser.OFPMatch(in_port=port, eth_dst=frame.dst, eth_src=frame.src), actions)
        switch.send_msg(parser.OFPPacketOut(
            datapath=switch, buffer_id=of.OFP_NO_BUFFER, in_port=port, actions=actions, data=message.data))


cfg.CONF(args=["--ofp-tcp-listen-port", sys.argv[1]], project="os_ken", default_config_files=[])
AppManager.run_apps(["__main__", "os_ken.controller.ofp_handler"])
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "learning.py"
    file.write_text(LEARNING)
    return file


@pytest.fixture
def line_of_switches(tmp_path: Path) -> Path:
    """h1 - s1 - s2 - h2, and h3 at s2."""
    nodes = [
        {"id": name, "kind": "host" if name[0] == "h" else "switch"}
        for name in ("s1", "s2", "h1", "h2", "h3")
    ]
    links = [
        {"source": a, "target": b}
        for a, b in (("h1", "s1"), ("s1", "s2"), ("s2", "h2"), ("s2", "h3"))
    ]
    file = tmp_path / "line.json"
    file.write_text(json.dumps({"nodes": nodes, "links": links}))
    return file


def testbed(*words: str, text: str) -> subprocess.CompletedProcess[str]:
    argv = [*TESTBED, *words]
    return run(argv, input=text, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)


testbed.__test__ = False  # type: ignore[attr-defined]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


WORKS = "sh sleep 4\npingall\npingall\ns1 ovs-ofctl -O OpenFlow13 dump-flows s1\n"


@pytest.mark.emulation
@pytest.mark.unclocked
def test_switches_obey_a_learning_switch_that_runs_outside(
    program: Path, line_of_switches: Path
) -> None:
    port = _free_port()
    with subprocess.Popen(
        [sys.executable, str(program), str(port)], stderr=subprocess.DEVNULL
    ) as learning:
        try:
            until = time.monotonic() + 60
            while time.monotonic() < until:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.1)
            done = testbed(
                "up", str(line_of_switches), "--controller", f"remote,127.0.0.1,{port}", text=WORKS
            )
        finally:
            learning.kill()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("0% dropped (6/6 received)") >= 1, done.stdout + done.stderr
    assert (
        "dl_src=" in done.stdout and "nw_dst=" not in done.stdout
    )  # the learned rules, and none of ours
    assert "note" not in done.stderr


@pytest.mark.emulation
@pytest.mark.unclocked
@pytest.mark.long
def test_the_controller_may_run_inside_and_come_later(
    program: Path, line_of_switches: Path
) -> None:
    port = _free_port()
    text = f"sh setsid {sys.executable} {program} {port} >/dev/null 2>&1 </dev/null &\nsh sleep 4\n{WORKS}"
    done = testbed("up", str(line_of_switches), "--controller", f"remote,port={port}", text=text)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("0% dropped (6/6 received)") >= 1, done.stdout + done.stderr
    assert (
        f"note: remote,port={port}: Connection refused; switches forward nothing until"
        in done.stderr
    )


@pytest.mark.parametrize(
    "text", ["ovsc", "remote,1.2.3.4,0", "remote,1.2.3.4,70000", "remote,a b", "remote,x,y,z"]
)
def test_another_controller_is_refused_with_what_to_give(text: str) -> None:
    with pytest.raises(InputError, match="give remote, or remote,IP or remote,IP,PORT"):
        parse_controller(text)


def test_label_routes_and_machines_are_refused_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [
        "up",
        "ring:4",
        "--controller",
        "remote",
        "--routing",
        "capillary",
        "--from",
        "s0",
        "--to",
        "s2",
    ]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "--routing capillary: its labels are rules of the testbed's own controller" in said
