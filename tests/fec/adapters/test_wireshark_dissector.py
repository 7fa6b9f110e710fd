"""The Wireshark dissector reads every field as the packet format defines it, and marks what is damaged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from scapy.utils import wrpcap

from fec.adapters import scapy_layer
from fec.adapters.scapy_layer import FrameTemplate
from fec.code.variable_lengths import VariableLengthCode
from fec.protocol.events.event_sender import EventPolicy, EventSender
from fec.protocol.framing import sealed_with
from fec.protocol.loss_report import LossReport
from fec.protocol.sender import SenderParameters
from fec.protocol.wire import PacketHeader, protect
from fec.redundancy.block_size_control import fixed_block_size
from fec.redundancy.labels import StratifiedLabels
from tests.helpers.ordinary_user import run_dissector

DISSECTOR = Path(scapy_layer.__file__).with_name("stream_dissector.lua")
pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


def dissect(packets: list[bytes], folder: Path) -> list[dict[str, Any]]:
    """The dissector's fields of each packet, as tshark's JSON gives them (flat, by their full names)."""
    template = FrameTemplate(
        src_mac="02:00:00:00:00:01",
        dst_mac="02:00:00:00:00:02",
        src_ip="10.0.0.1",
        dst_ip="10.0.0.2",
    )
    file = folder / "crafted.pcap"
    wrpcap(str(file), [template.frame(12345, packet) for packet in packets], linktype=1)
    return read(file)


def read(file: Path) -> list[dict[str, Any]]:
    done = run_dissector(DISSECTOR, file, "--no-duplicate-keys")
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr.lower(), done.stderr
    return [
        _flat(packet["_source"]["layers"]["testbed_stream"]) for packet in json.loads(done.stdout)
    ]


def _flat(tree: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            found |= _flat(value)
        else:
            found[name.removeprefix("testbed_stream.")] = value
    return found


def number(text: str) -> int:
    return int(text, 0)


@pytest.mark.parametrize("symbol_id", [3, 254])
def test_every_field_of_a_coded_packet_is_read(symbol_id: int, tmp_path: Path) -> None:
    symbol = protect(b"payload", 40)
    header = PacketHeader(
        stream_id=0xBEEF,
        source_block_number=0xABCDEF,
        encoding_symbol_id=symbol_id,
        source_packets=200,
        block_size=255,
        symbol_length=len(symbol),
        path=17,
        path_sequence=65533,
        timestamp_us=0xFEDCBA98,
        session=0x89ABCDEF,
    )
    (found,) = dissect([header.encode(symbol) + symbol], tmp_path)
    assert number(found["version"]) == 3
    assert number(found["kind"]) == header.packet_type
    for name in (
        "stream_id",
        "source_block_number",
        "encoding_symbol_id",
        "source_packets",
        "block_size",
        "path",
        "session",
    ):
        assert number(found[name]) == getattr(header, name), name
    assert number(found["path_sequence"]) == 65533 and number(found["symbol_length"]) == 40
    assert bytes.fromhex(found["symbol"].replace(":", "")) == symbol
    assert ("payload_length" in found) == (symbol_id < 200)
    assert number(found["timestamp_us"]) == 0xFEDCBA98
    assert found["crc.good"] in ("1", True, "True")
    if symbol_id < 200:
        assert number(found["payload_length"]) == 7


def test_a_tunnels_short_block_is_told_from_a_whole_one(tmp_path: Path) -> None:
    parameters = SenderParameters(source_packets=4, symbol_bytes=64, rate_pps=1000)
    policy = EventPolicy(parity_of=lambda k, size: 1)
    sender = EventSender(
        parameters, VariableLengthCode(4), StratifiedLabels(), fixed_block_size(5), policy
    )
    packets = [*sender.offer(b"one", 0.0), *sender.offer(b"other", 0.0), *sender.flush(0.0)]
    template = FrameTemplate(
        src_mac="02:00:00:00:00:01",
        dst_mac="02:00:00:00:00:02",
        src_ip="10.0.0.1",
        dst_ip="10.0.0.2",
        udp_port=47255,
    )
    file = tmp_path / "tunnel.pcap"
    wrpcap(str(file), [template.frame(one.label, one.data) for one in packets], linktype=1)
    data, _, parity = read(file)
    assert [number(one["source_packets"]) for one in (data, parity)] == [4, 2]
    assert [one["flags.short"] in ("1", True, "True") for one in (data, parity)] == [False, True]


def test_every_field_of_a_loss_report_is_read(tmp_path: Path) -> None:
    report = LossReport(
        stream_id=9,
        number=1,
        newest_us=2,
        newest_age_us=3,
        highest_block=4,
        received=5,
        decoded_blocks=6,
        undecodable_blocks=7,
        unused_parity=8,
        blocks=((77, 0b1011),),
        paths=((5, 70_000, 9),),
        session=2**32 - 1,
    )
    (found,) = dissect([report.encode()], tmp_path)
    assert (
        number(found["kind"]) == 3
        and number(found["stream_id"]) == 9
        and number(found["session"]) == 2**32 - 1
    )
    names = (
        "number",
        "newest_us",
        "newest_age_us",
        "highest_block",
        "received",
        "decoded_blocks",
        "undecodable_blocks",
    )
    for name in (*names, "unused_parity"):
        assert number(found[f"report.{name}"]) == getattr(report, name), name
    assert number(found["report.blocks"]) == 1 and number(found["report.block"]) == 77
    assert number(found["report.paths"]) == 1 and number(found["report.path"]) == 5
    assert number(found["report.path_lost"]) == 70_000 and number(found["report.path_came"]) == 9
    assert int(found["report.bitmap"].replace(":", ""), 16) == 0b1011
    assert found["crc.good"] in ("1", True, "True")


def test_a_seal_passes_for_no_wrong_checksum(tmp_path: Path) -> None:
    symbol, seal = protect(b"payload", 40), sealed_with(bytes(16))
    header = PacketHeader(
        stream_id=1,
        source_block_number=1,
        encoding_symbol_id=0,
        source_packets=2,
        block_size=3,
        symbol_length=40,
        keyed=True,
    )
    report = LossReport(stream_id=1, number=1, newest_us=2, highest_block=3)
    sent = [header.encode(symbol, seal) + symbol, report.encode(seal)]
    for found, data, at in zip(dissect(sent, tmp_path), sent, (24, 44), strict=True):
        assert bytes.fromhex(found["seal"].replace(":", "")) == data[at : at + 4]
        assert "crc" not in found and not any("wrong_crc" in name for name in found)


def test_damaged_and_short_packets_are_marked_and_foreign_ones_left_alone(tmp_path: Path) -> None:
    symbol = protect(b"payload", 40)
    header = PacketHeader(
        stream_id=1,
        source_block_number=1,
        encoding_symbol_id=0,
        source_packets=2,
        block_size=3,
        symbol_length=40,
    )
    good = header.encode(symbol) + symbol
    damaged = good[:-1] + bytes([good[-1] ^ 1])
    found = dissect(
        [good, damaged, good[:20], good[:-3], b"\x95foreign", b"\x11" + good[1:]], tmp_path
    )
    assert len(found) == 4
    assert [packet.get("crc.good") in ("1", True, "True") for packet in found] == [
        True,
        False,
        False,
        False,
    ]
    marks = [any("malformed" in name for name in packet) for packet in found]
    assert marks == [False, False, True, True]


def test_labels_that_are_ports_of_other_protocols_do_not_hide_a_packet(tmp_path: Path) -> None:
    symbol = protect(b"payload", 40)
    header = PacketHeader(
        stream_id=1,
        source_block_number=1,
        encoding_symbol_id=0,
        source_packets=2,
        block_size=3,
        symbol_length=40,
    )
    template = FrameTemplate(
        src_mac="02:00:00:00:00:01",
        dst_mac="02:00:00:00:00:02",
        src_ip="10.0.0.1",
        dst_ip="10.0.0.2",
    )
    labels = [
        53,
        67,
        123,
        161,
        500,
        1812,
        2152,
        4789,
        5060,
        5353,
        6081,
        47000,
        *range(0, 65536, 97),
    ]
    file = tmp_path / "labels.pcap"
    wrpcap(
        str(file),
        [template.frame(label, header.encode(symbol) + symbol) for label in labels],
        linktype=1,
    )
    assert len(read(file)) == len(labels)
