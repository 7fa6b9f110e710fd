"""``testbed up`` with commands from a pipe, and ``testbed doctor``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT
from tests.helpers.warm import TESTBED, run


def testbed(*words: str, text: str = "", cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return run(
        [*TESTBED, *words],
        input=text,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        cwd=cwd,
    )


testbed.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.emulation
@pytest.mark.unclocked
def test_prompt_obeys_commands_from_a_pipe(tmp_path: Path) -> None:
    commands = """
    h0 ping -c 1 -W 10 h1
    pingall
    fault s0->s1 blackhole one-way
    fault
    h0 ping -c 1 -W 1 h1
    restore all
    link s1 s2 down
    link s1 s2 up
    fault s0->s1 loss 0.5
    restore s0->s1   # a comment
    h0 ping -c 1 -W 10 h1
    loads
    names
    """
    done = testbed("up", "ring:3", "--pcap", "s0->s1=" + str(tmp_path / "a.pcap"), text=commands)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ring:3" in done.stdout
    assert "0% dropped (6/6 received)" in done.stdout
    assert done.stdout.count("s0->s1 blackhole one-way\n") == 2 and "s0->s1" in done.stdout
    assert done.stdout.count("1 received") == 2
    assert done.stdout.count("0 received") == 1
    assert "datapath id 3" in done.stdout
    assert "packets" in done.stdout
    assert (tmp_path / "a.pcap").stat().st_size > 24 + 16 + 98


@pytest.mark.emulation
@pytest.mark.unclocked
def test_the_prompt_sets_what_a_link_is_and_says_what_it_was_set_to() -> None:
    lines = (
        "config s0->s1 delay=50ms bw=5 one-way # until later",
        "config",
        "h0 ping -c 1 -W 10 h1",
        "h0 ping -c 1 -W 10 h1",
        "config s0->s1 reset",
        "config",
        "config s0->s1 delay=5",
        "config s0->s9 bw=5",
    )
    done = testbed("up", "ring:3", text="\n".join(lines))
    assert done.returncode == 2
    assert done.stdout.count("s0->s1 bw=5 delay=50ms loss=0\n") == 2, done.stdout + done.stderr
    assert "s0->s1 as the network says\n" in done.stdout
    assert done.stdout.count("1 received") == 2
    assert float(done.stdout.rpartition("time=")[2].split()[0]) >= 50
    wrong = done.stderr.splitlines()
    assert any("delay=5: say the unit" in line for line in wrong) and any(
        "s0->s9" in line for line in wrong
    )


@pytest.mark.emulation
@pytest.mark.unclocked
def test_hosts_have_ipv6_where_it_is_asked_for_and_only_there() -> None:
    lines = (
        "h0 ping -6 -c 1 -W 10 fd00::3",
        "h2 ping -6 -c 1 -W 10 fd00::1",
        "pingall",
        "h1 ip -6 -br address",
    )
    with_it, without = (
        testbed("up", "ring:3", *words, text="\n".join(lines)) for words in (["--ipv6"], [])
    )
    assert with_it.returncode == 0, with_it.stderr
    assert (
        with_it.stdout.count(", 1 received") == 2 and "0% dropped (6/6 received)" in with_it.stdout
    ), with_it.stdout
    assert "h0 is fd00::1" in with_it.stdout
    assert "fd00::2/64" in with_it.stdout and "fe80" not in with_it.stdout
    assert (
        "received" not in without.stdout.replace("(6/6 received)", "")
        and "fd00" not in without.stdout
    )


@pytest.mark.emulation
@pytest.mark.unclocked
def test_access_ports_of_vlans_are_open_vswitch_s_own(tmp_path: Path) -> None:
    nodes = [{"id": "s1", "kind": "switch"}, *({"id": f"h{k}", "kind": "host"} for k in (1, 2, 3))]
    links = [{"source": f"h{k}", "target": "s1"} for k in (1, 2, 3)]
    (tmp_path / "star.json").write_text(json.dumps({"nodes": nodes, "links": links}))
    tags = [f"s1 ovs-vsctl set port s1-eth{k} tag={tag}" for k, tag in ((1, 10), (2, 10), (3, 20))]
    normal = "s1 ovs-ofctl -O OpenFlow13 add-flow s1 priority=5,actions=NORMAL"
    lines = (*tags, normal, "h1 ping -c 1 -W 10 h2", "h1 ping -c 1 -W 1 h3")
    done = testbed("up", str(tmp_path / "star.json"), text="\n".join(lines))
    assert done.returncode == 0, done.stderr
    assert [line[23:33] for line in done.stdout.splitlines() if "packets transmitted" in line] == [
        "1 received",
        "0 received",
    ]


def test_ipv6_needs_its_mtu() -> None:
    done = testbed("up", "ring:3", "--ipv6", "--mtu", "1000")
    assert done.returncode == 2 and "IPv6 needs 1280 or more" in done.stderr


@pytest.mark.emulation
@pytest.mark.unclocked
def test_wrong_lines_from_a_pipe_are_told_and_end_with_2() -> None:
    done = testbed(
        "up", "ring:3", text="bogus\nfault nothing\nrestore s0->s1\nfault s0->s1 loss much\n"
    )
    assert done.returncode == 2
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 4
    assert all(line.startswith("testbed: ") for line in lines)


@pytest.mark.emulation
@pytest.mark.unclocked
def test_switch_without_hosts_gets_hosts_of_its_own(tmp_path: Path) -> None:
    links = [{"source": "p", "target": "q", "capacity_bps": 1e7, "delay_s": 0}]
    nodes = [{"id": n, "kind": "switch"} for n in "pq"]
    file = tmp_path / "pair.json"
    file.write_text(
        json.dumps(
            {"directed": False, "multigraph": False, "graph": {}, "nodes": nodes, "links": links}
        )
    )
    done = testbed("up", str(file), text="pingall\n")
    assert "0% dropped (2/2 received)" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["up", "no-such-network"], "no-such-network"),
        (["up", "ring:3", "--mtu", "10"], "--mtu"),
        (["up", "ring:3", "--from", "h0"], "--routing"),
        (["up", "ring:3", "--routing", "capillary", "--from", "h0"], "--to"),
        (["up", "ring:3", "--routing", "capillary", "--from", "h0", "--to", "h77"], "h77"),
        (["up", "ring:3", "--pcap", "h0"], "h0"),
        (["up", "ring:3", "--pcap", "s0->s1=/no/such/directory/a.pcap"], "/no/such/directory"),
    ],
)
@pytest.mark.emulation
@pytest.mark.unclocked
def test_bad_input_is_one_line_and_exit_code_2(words: list[str], says: str) -> None:
    done = testbed(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


def test_doctor_tells_every_capability_and_a_mend_for_each_lack() -> None:
    done = testbed("doctor", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["capabilities"]
    assert {
        "namespaces",
        "tun",
        "kernel_datapath",
        "netem",
        "shaping",
        "packet_loss",
        "impairments",
        "nftables",
        "tc",
    } <= found.keys()
    for name, entry in found.items():
        assert isinstance(entry["available"], bool)
        assert entry["detail"], name
        assert entry["available"] or entry["mend"], name
        assert "File exists" not in entry["detail"], f"{name} met what another trial left behind"


@pytest.mark.emulation
@pytest.mark.unclocked
def test_doctor_finds_emulation_possible_where_it_runs() -> None:
    assert testbed("doctor", "--strict").returncode == 0


def test_doctor_names_what_is_missing_and_strict_ends_with_3() -> None:
    hidden = (
        "import shutil, sys; from testbed.emulation.machine import capabilities as c; c.find_program = lambda "
        "name: None; "
    )
    script = hidden + "from testbed.cli import main; sys.exit(main(['doctor', '--strict']))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "apt-get install openvswitch-switch" in done.stderr
