"""A capture of a real run, read through the Wireshark dissector, says the same as the packet format's own decoder."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import UDP
from scapy.utils import rdpcap

from fec.adapters import scapy_layer
from fec.protocol.framing import VERSION, PacketType, peek_type
from fec.protocol.loss_report import decode_report
from fec.protocol.wire import decode_header
from tests.helpers.commands import in_process
from tests.helpers.ordinary_user import run_dissector
from tests.helpers.warm import run

pytestmark = [pytest.mark.emulation, pytest.mark.unclocked]
DISSECTOR = Path(scapy_layer.__file__).with_name("stream_dissector.lua")


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_packets_on_a_link_are_read_field_by_field(
    tmp_path: Path, valid_run: Callable[..., Any]
) -> None:
    words = [
        sys.executable,
        "-m",
        "testbed.cli",
        "stream",
        "swiss-t1",
        "--from",
        "s1",
        "--to",
        "s6",
        "--max-faults",
        "1",
    ]
    words += ["--hold-time", "0.5", "--loss-precision", "3", "--fabric", "emulation"]
    words += ["--json", "--results", str(tmp_path / "results")]
    link = in_process("route", "swiss-t1", "--from", "s1", "--to", "s6", "--json")
    first = next(entry for entry in json.loads(link.stdout)["links"] if entry["source"] == "s1")
    file = tmp_path / "link.pcap"
    words += ["--pcap", f"{first['source']}->{first['target']}={file}"]
    done = valid_run(lambda: run(words, capture_output=True, text=True, timeout=120, check=False))
    assert done.returncode == 0, done.stderr
    names = (
        "kind",
        "stream_id",
        "source_block_number",
        "encoding_symbol_id",
        "source_packets",
        "block_size",
        "symbol_length",
    )
    fields = [
        f"testbed_stream.{name}"
        for name in (*names, "timestamp_us", "path", "path_sequence", "report.number")
    ]
    shown = run_dissector(DISSECTOR, file, *_each(fields))
    assert shown.returncode == 0, shown.stderr
    dissected = [packet["_source"]["layers"] for packet in json.loads(shown.stdout)]
    carried = [
        bytes(packet[UDP].payload)
        for packet in rdpcap(str(file))
        if UDP in packet and packet[UDP].dport == 47000
    ]
    payloads = [
        payload for payload in carried if payload[0] >> 4 == VERSION
    ]  # not the zeros that warm a path up
    assert len(dissected) == len(payloads) > 200
    for layers, payload in zip(dissected, payloads, strict=True):
        kind = peek_type(payload)
        assert int(layers["testbed_stream.kind"][0]) == kind
        if kind is PacketType.REPORT:
            assert int(layers["testbed_stream.report.number"][0]) == decode_report(payload).number
            continue
        header = decode_header(payload)
        for name in (*names[1:], "timestamp_us", "path", "path_sequence"):
            assert int(layers[f"testbed_stream.{name}"][0]) == getattr(header, name), name


def _each(fields: list[str]) -> list[str]:
    return [word for field in fields for word in ("-e", field)]
