"""Parameters that cannot be used and what is no bytes are refused; buffers that their owner writes into again are
copied."""

from __future__ import annotations

import copy
import math
import pickle
from array import array
from typing import Any

import pytest

from fec.code.reed_solomon import ReedSolomonCode
from fec.code.variable_lengths import VariableLengthCode
from fec.errors import FecError
from fec.protocol.events.event_receiver import EventReceiver
from fec.protocol.events.event_sender import EventPolicy, EventSender
from fec.protocol.receiver import StreamReceiver
from fec.protocol.receiver_types import ReceiverParameters, SourceDelivered
from fec.protocol.sender import SenderParameters, StreamSender
from fec.protocol.wire import protect
from fec.redundancy.block_size_control import fixed_block_size
from fec.redundancy.labels import LABELS, StratifiedLabels
from tests.helpers.delay_loop import build_receiver, build_sender

NAN = math.nan
EVERY: list[tuple[str, Any]] = [
    ("source_packets", 4.0), ("source_packets", "4"), ("source_packets", 0), ("symbol_bytes", 16.5),
    ("symbol_bytes", 1 << 16), ("stream_id", 1.5), ("stream_id", -1), ("stream_id", 70_000), ("playback_s", NAN),
    ("playback_s", 0),
]  # fmt: skip
SENDERS: list[tuple[str, Any]] = [
    ("session", 1.5), ("session", None), ("session", -1), ("session", 1 << 32), ("rate_pps", NAN), ("silence_s", NAN),
]  # fmt: skip
RECEIVERS: list[tuple[str, Any]] = [
    ("report_interval_s", NAN),
    ("report_packets", NAN),
    ("urgent_s", NAN),
]
PLAIN: dict[str, Any] = {"source_packets": 4, "symbol_bytes": 24}


@pytest.mark.parametrize(("name", "value"), EVERY + SENDERS)
def test_a_sender_refuses(name: str, value: Any) -> None:
    with pytest.raises(FecError, match=r".") as caught:
        SenderParameters(**{**PLAIN, "rate_pps": 100.0, name: value})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "value"), EVERY + RECEIVERS)
def test_a_receiver_refuses(name: str, value: Any) -> None:
    with pytest.raises(FecError):
        ReceiverParameters(**{**PLAIN, name: value})


@pytest.mark.parametrize("delays", [[0.1], [NAN] * LABELS, [-0.1] * LABELS])
def test_planned_delays_are_one_for_each_label(delays: list[float]) -> None:
    with pytest.raises(FecError, match="65,536"):
        build_sender(block_size=24, delay_of_label=delays)


def test_a_key_of_text_is_refused() -> None:
    with pytest.raises(FecError, match="str where bytes"):
        build_receiver(key="x" * 16)


@pytest.mark.parametrize("key", [None, bytes(16)])
def test_received_packets_survive_reuse_of_their_buffer(
    key: bytes | None,
) -> None:
    sender, receiver = build_sender(block_size=24, key=key), build_receiver(key=key)
    buffer, found = bytearray(200), []
    for packet in sender.packets_due(0.06):
        if packet.symbol % 8 == 1:
            continue
        buffer[: len(packet.data)] = packet.data
        found += receiver.receive(memoryview(buffer)[: len(packet.data)], 0.06)  # type: ignore[arg-type]
    delivered = [event for event in found if isinstance(event, SourceDelivered)]
    assert sorted(event.index for event in delivered)[:40] == list(range(40))
    assert all(event.payload == sender._source(event.index) for event in delivered)
    assert any(event.recovered for event in delivered)


@pytest.mark.parametrize(
    "payload", [bytearray(b"ab"), memoryview(b"abcd")[::2], memoryview(array("i", [1, 2]))]
)
def test_a_payload_is_its_bytes_whatever_holds_them(payload: Any) -> None:
    parameters = SenderParameters(**PLAIN, rate_pps=100.0)
    sender = StreamSender(
        parameters, ReedSolomonCode(4), StratifiedLabels(), fixed_block_size(6), lambda i: payload
    )
    receiver = build_receiver(**PLAIN)
    (found,) = receiver.receive(sender.packets_due(0.0)[0].data, 0.0)
    assert found.payload == bytes(payload)  # type: ignore[union-attr]
    policy = EventPolicy(parity_of=lambda k, size: 1)
    offered = EventSender(
        parameters, VariableLengthCode(4), StratifiedLabels(), fixed_block_size(6), policy
    )
    ordered = EventReceiver(ReceiverParameters(**PLAIN), VariableLengthCode(4), 0)
    (packet,) = offered.offer(payload, 0.0)
    assert [event.payload for event in ordered.receive(packet.data, 0.0)] == [bytes(payload)]
    for nothing in ("ab", 5, None):
        with pytest.raises(FecError, match="where bytes were expected"):
            offered.offer(nothing, 0.0)  # type: ignore[arg-type]
        with pytest.raises(FecError, match="where bytes were expected"):
            protect(nothing, 24)  # type: ignore[arg-type]


@pytest.mark.parametrize("code", [ReedSolomonCode(4), VariableLengthCode(3, "reedsolo")])
def test_codes_are_handed_to_other_processes(code: ReedSolomonCode) -> None:
    for other in (pickle.loads(pickle.dumps(code)), copy.deepcopy(code)):
        assert type(other) is type(code) and other.source_packets == code.source_packets
        assert other.engine == code.engine


def test_a_receiver_is_copied_with_what_it_has() -> None:
    sender, receiver = build_sender(block_size=24), build_receiver()
    packets = [packet.data for packet in sender.packets_due(0.04)]
    for data in packets[:10]:
        receiver.receive(data, 0.04)
    other: StreamReceiver = copy.deepcopy(receiver)
    for data in packets[10:]:
        assert other.receive(data, 0.04) == receiver.receive(data, 0.04)
    assert other.counters == receiver.counters
