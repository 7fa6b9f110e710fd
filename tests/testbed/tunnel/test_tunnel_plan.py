"""A tunnel's plan: what it refuses, which packets make a flow, and under which labels reports go back."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from testbed.errors import InputError
from testbed.stream.prediction.active_faults import cable_name
from testbed.tunnel.emulated.tun_device import TunDevice, packets_unread
from testbed.tunnel.ends import build_receiver, build_sender, flow_of_packet, is_ipv4
from testbed.tunnel.plan import MODES, TunnelPlan, build_tunnel, report_labels, report_pairs
from testbed.tunnel.workload import tunnel_plan

KEY = bytes(32)


@pytest.fixture(scope="module")
def plan() -> TunnelPlan:
    return build_tunnel("torus:3x3", "s0_0", "s1_1")


def udp(source_port: int, fragment: int = 0, payload: bytes = b"x") -> bytes:
    head = (
        bytes([0x45, 0])
        + bytes(4)
        + fragment.to_bytes(2, "big")
        + bytes([64, 17, 0, 0])
        + bytes(range(8))
    )
    return head + source_port.to_bytes(2, "big") + (7007).to_bytes(2, "big") + bytes(4) + payload


def test_a_full_packet_of_the_device_fits_a_frame_of_the_links(plan: TunnelPlan) -> None:
    sender = build_sender(plan, KEY)
    packets = sender.offer(bytes(plan.mtu), 0.0)
    assert sender.largest_payload == plan.mtu and len(packets[0].data) + 28 == 1500


def test_one_cable_under_every_path_is_refused() -> None:
    with pytest.raises(InputError, match=r"every path crosses .*, whose failure no code stands"):
        build_tunnel("swiss-t1", "t0", "t31")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"flush_s": 0.3}, r"at most 0\.1 s"),
        ({"flush_s": 0.0}, "more than 0"),
        ({"order_s": 0.5}, r"0 \(as they come\) to 0\.4 s"),
        ({"mode": "best"}, "adaptive, static, none"),
        ({"link_mtu": 600}, "leave .* bytes; give at least"),
    ],
)
def test_incompatible_tunnel_options_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        build_tunnel("ring:4", "s0", "s2", **options)  # type: ignore[arg-type]


def test_a_flush_after_which_parity_comes_too_late_is_refused() -> None:
    words = r"4 times the flush, and its parity takes 0\.1 s .* at most 0\.075 s, or a playback of 0\.5 s"
    with pytest.raises(InputError, match=words):
        build_tunnel("ring:4,delay_s=0.05", "s0", "s2", flush_s=0.1)


def test_fragments_of_a_packet_are_one_flow_and_other_ports_another() -> None:
    assert flow_of_packet(udp(5)) != flow_of_packet(udp(6))
    assert flow_of_packet(udp(5, fragment=0x2000)) == flow_of_packet(udp(6, fragment=0x00B9))
    assert is_ipv4(udp(5)) and not is_ipv4(bytes([0x60]) + bytes(40)) and not is_ipv4(b"")


def test_packets_that_nobody_read_are_counted_by_the_devices_name(tmp_path: Path) -> None:
    file = tmp_path / "dev"
    file.write_text(
        "face |bytes\n  tun1: 1 2 0 0 0 0 0 0 9 8 0 7 0 0 0 0\n tun11: 0 0 0 3 0 0 0 0 0 0 0 5 0 0 0 0\n"
    )
    statistics = os.open(file, os.O_RDONLY)
    counted = [
        packets_unread(TunDevice(name, -1, statistics)) for name in ("tun1", "tun11", "tun2")
    ]
    os.close(statistics)
    assert counted == [7, 5, 0]


def test_reports_take_paths_without_a_common_cable(plan: TunnelPlan) -> None:
    split = plan.back.forward
    cables = [
        [cable_name(split.network.links[i].id) for i in split.path_of(label).links]
        for label in report_labels(split)
    ]
    every = [name for path in cables for name in path]
    assert len(cables) >= 2 and len(every) == len(set(every))


@pytest.mark.parametrize("ways", range(1, 9))
def test_no_way_back_is_left_out_for_longer_than_there_are_ways(ways: int) -> None:
    """With three ways every third was never taken: two cut cables silenced all reports of a tunnel."""
    pairs = list(itertools.islice(report_pairs(range(ways)), 5 * ways))
    for first in range(4 * ways):
        assert set().union(*pairs[first : first + ways]) == set(range(ways))
    assert {len(pair) for pair in pairs} == {min(ways, 2)}


def test_modes_differ_in_what_a_block_gets(plan: TunnelPlan) -> None:
    sizes = {}
    for mode in MODES:
        sender = build_sender(TunnelPlan(there=plan.there, back=plan.back, mode=mode), KEY)
        for k in range(20):
            sender.offer(bytes([k]), 0.0)
        sizes[mode] = 20 + sender.counters["parity"]
    assert sizes["none"] == 20 < sizes["adaptive"] < sizes["static"]


def test_the_other_end_reads_what_this_one_sends(plan: TunnelPlan) -> None:
    sender, receiver = build_sender(plan, KEY), build_receiver(plan.reversed(), KEY)
    sent = [
        packet
        for k in range(3)
        for packet in sender.offer(udp(k), 0.01 * k, flow_of_packet(udp(k)))
    ]
    came = [one.payload for packet in sent for one in receiver.receive(packet.data, 0.1)]
    assert came == [udp(k) for k in range(3)]
    stranger = build_receiver(plan.reversed(), bytes(31) + b"x")
    assert stranger.receive(sent[0].data, 0.1) == [] and stranger.rejected["key"] == 1


def test_impossible_blocks_are_rejected_before_building() -> None:
    """The trial's third run ended in an error of the code."""
    with pytest.raises(InputError, match="mode static needs blocks of 267 packets"):
        tunnel_plan("swiss-t1", ("s1", "s6"), source_packets=200)
    assert (
        tunnel_plan("swiss-t1", ("s1", "s6"), source_packets=200, mode="adaptive").tunnel.mode
        == "adaptive"
    )
