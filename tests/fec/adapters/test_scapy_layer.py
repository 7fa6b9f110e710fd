"""Frames that the data path patches are those that Scapy builds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fec.errors import FecError
from fec.protocol.wire import STREAM_UDP_PORT

scapy_layer = pytest.importorskip("fec.adapters.scapy_layer", reason="scapy is not installed")
inet = pytest.importorskip("scapy.layers.inet", reason="scapy is not installed")
l2 = pytest.importorskip("scapy.layers.l2", reason="scapy is not installed")

TEMPLATE_KEYS = {
    "src_mac": "02:00:00:00:00:01",
    "dst_mac": "02:00:00:00:00:02",
    "src_ip": "10.0.0.1",
    "dst_ip": "10.255.3.7",
}


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


def test_template_refuses_labels_and_payloads_that_no_datagram_holds() -> None:
    template = scapy_layer.FrameTemplate(**TEMPLATE_KEYS)
    with pytest.raises(FecError, match="label 65536"):
        template.frame(65536, b"")
    with pytest.raises(FecError, match="UDP datagram"):
        template.headers_for(65508)
