"""Scapy's layers and the struct codec: the same bytes and fields, both ways; frames as the kernel would read them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fec.errors import FecError
from fec.protocol.loss_report import LossReport, bitmap_bytes, decode_report
from fec.protocol.wire import STREAM_UDP_PORT, PacketHeader, decode_header

scapy_layer = pytest.importorskip("fec.adapters.scapy_layer", reason="scapy is not installed")
inet = pytest.importorskip("scapy.layers.inet", reason="scapy is not installed")
l2 = pytest.importorskip("scapy.layers.l2", reason="scapy is not installed")

HEADER_FIELDS = (
    "stream_id",
    "source_block_number",
    "encoding_symbol_id",
    "source_packets",
    "block_size",
    "path",
    "path_sequence",
    "session",
)
REPORT_FIELDS = (
    "stream_id",
    "number",
    "newest_us",
    "newest_age_us",
    "highest_block",
    "received",
    "decoded_blocks",
    "undecodable_blocks",
    "unused_parity",
    "session",
)
TEMPLATE_KEYS = {
    "src_mac": "02:00:00:00:00:01",
    "dst_mac": "02:00:00:00:00:02",
    "src_ip": "10.0.0.1",
    "dst_ip": "10.255.3.7",
}


@settings(deadline=None)
@given(data=st.data(), symbol=st.binary(max_size=40))
def test_scapy_and_the_codec_agree_on_every_packet(data: st.DataObject, symbol: bytes) -> None:
    k = data.draw(st.integers(1, 254))
    header = PacketHeader(
        stream_id=data.draw(st.integers(0, 65535)),
        source_block_number=data.draw(st.integers(0, 2**24 - 1)),
        encoding_symbol_id=data.draw(st.integers(0, 254)),
        source_packets=k,
        block_size=data.draw(st.integers(k, 255)),
        symbol_length=len(symbol),
        path=data.draw(st.integers(0, 255)),
        path_sequence=data.draw(st.integers(0, 65535)),
        timestamp_us=data.draw(st.integers(0, 2**32 - 1)),
    )
    fields = {name: getattr(header, name) for name in HEADER_FIELDS}
    designed = scapy_layer.StreamPacket(**fields, timestamp_us=header.timestamp_us) / symbol
    packet = header.encode(symbol) + symbol
    assert bytes(designed) == packet
    assert decode_header(bytes(designed)) == header

    dissected = scapy_layer.StreamPacket(packet)
    assert {name: getattr(dissected, name) for name in HEADER_FIELDS} == fields
    assert dissected.kind == header.packet_type
    assert dissected.symbol_length == len(symbol)
    assert bytes(dissected.payload) == symbol
    assert bytes(dissected.copy()) == packet


@settings(deadline=None)
@given(
    values=st.lists(st.integers(0, 65535), min_size=10, max_size=10),
    blocks=st.lists(st.tuples(st.integers(0, 2**24 - 1), st.integers(0, 2**255 - 1)), max_size=30),
    paths=st.lists(st.tuples(st.integers(1, 255), st.integers(0, 2**24 - 1), st.integers(0, 2**32 - 1)), max_size=40),
)
def test_scapy_and_the_codec_agree_on_every_report(
    values: list[int], blocks: list[tuple[int, int]], paths: list[tuple[int, int, int]]
) -> None:
    fields = dict(zip(REPORT_FIELDS, values, strict=True))
    report = LossReport(**fields, blocks=tuple(blocks), paths=tuple(paths))
    width = bitmap_bytes(bits for _, bits in blocks)
    listed = [scapy_layer.ReportedBlock(block=b, received=bits.to_bytes(width, "big")) for b, bits in blocks]
    named = [scapy_layer.ReportedPath(path=path, lost=lost, came=came) for path, lost, came in paths]
    designed = bytes(scapy_layer.StreamReport(**fields, bitmap_bytes=width, blocks=listed, paths=named))
    assert designed == report.encode()
    assert decode_report(designed) == report

    dissected = scapy_layer.StreamReport(designed)
    assert {name: getattr(dissected, name) for name in REPORT_FIELDS} == fields
    assert [(b.block, int.from_bytes(b.received, "big")) for b in dissected.blocks] == blocks
    assert [(p.path, p.lost, p.came) for p in dissected.paths] == paths


@given(label=st.integers(0, 65535), payload=st.binary(max_size=60))
@settings(deadline=None)
def test_patched_frames_are_those_that_scapy_builds(label: int, payload: bytes) -> None:
    template = scapy_layer.FrameTemplate(**TEMPLATE_KEYS)
    built = (
        l2.Ether(src=TEMPLATE_KEYS["src_mac"], dst=TEMPLATE_KEYS["dst_mac"])
        / inet.IP(src=TEMPLATE_KEYS["src_ip"], dst=TEMPLATE_KEYS["dst_ip"], flags="DF", id=0)
        / inet.UDP(sport=label, dport=STREAM_UDP_PORT, chksum=0)
        / payload
    )
    assert template.frame(label, payload) == bytes(built)


def test_frames_to_the_stream_port_are_dissected_down_to_the_symbol() -> None:
    template = scapy_layer.FrameTemplate(**TEMPLATE_KEYS)
    header = PacketHeader(
        stream_id=1, source_block_number=2, encoding_symbol_id=3, source_packets=4, block_size=5, symbol_length=3
    )
    frame = l2.Ether(template.frame(9, header.encode(b"abc") + b"abc") + bytes(10))
    assert frame[inet.UDP].sport == 9
    assert frame[scapy_layer.StreamPacket].source_block_number == 2
    assert frame[scapy_layer.StreamPacket].payload.load == b"abc"

    report = LossReport(stream_id=1, number=2, newest_us=3, highest_block=4, blocks=((4, 5),))
    frame = l2.Ether(template.frame(9, report.encode()))
    assert frame[scapy_layer.StreamReport].blocks[0].block == 4


def test_template_refuses_labels_and_payloads_that_no_datagram_holds() -> None:
    template = scapy_layer.FrameTemplate(**TEMPLATE_KEYS)
    with pytest.raises(FecError, match="label 65536"):
        template.frame(65536, b"")
    with pytest.raises(FecError, match="UDP datagram"):
        template.headers_for(65508)
