"""A key at both ends: the stream goes on as without one, and nothing that others make or change is believed."""

from __future__ import annotations

import hashlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fec.errors import FecError, MalformedPacket
from fec.protocol.framing import sealed_with
from fec.protocol.loss_report import LossReport, decode_report
from fec.protocol.receiver_types import SourceDelivered
from fec.protocol.wire import decode_header
from tests.helpers.delay_loop import DelayLoop, build_receiver, build_sender, cut

KEY, OTHER = bytes(range(32)), bytes(32)


@given(
    key=st.binary(min_size=16, max_size=100),
    front=st.binary(max_size=50),
    rest=st.binary(max_size=300),
)
def test_seal_is_a_keyed_blake2b_of_four_bytes(key: bytes, front: bytes, rest: bytes) -> None:
    hashed = key if len(key) <= 64 else hashlib.blake2b(key).digest()
    expected = hashlib.blake2b(front + rest, key=hashed, digest_size=4).digest()
    assert sealed_with(key)(front, rest) == expected


def test_a_short_key_is_refused() -> None:
    for build in (build_sender, build_receiver):
        with pytest.raises(FecError, match="15 bytes; give at least 16"):
            build(key=bytes(15))


def test_a_keyed_stream_adapts_as_one_without() -> None:
    told = []
    for key in (None, KEY):
        sender = build_sender(policy=lambda loss: int(20 / (1 - loss)) + 3, key=key, session=5)
        loop = DelayLoop(sender, build_receiver(key=key), forward=cut(0, 16384, 0.5, 1.5))
        loop.run_until(2.0)
        loop.finish()
        told.append((loop.events, loop.reported_s, sender.counters, loop.receiver.counters))
    assert told[0] == told[1]
    assert told[0][2]["late_parity"] and not told[0][2]["bad_reports"]


@pytest.mark.parametrize(("theirs", "ours"), [(None, KEY), (KEY, None), (OTHER, KEY)])
def test_ends_of_different_keys_do_not_hear_each_other(
    theirs: bytes | None, ours: bytes | None
) -> None:
    sender, receiver = build_sender(key=theirs), build_receiver(key=ours)
    packets = sender.packets_due(0.1, 500)
    assert not [
        e for p in packets for e in receiver.receive(p.data, 0.1) if isinstance(e, SourceDelivered)
    ]
    assert dict(receiver.rejected) == {"key": len(packets)}
    report = LossReport(stream_id=1, number=5, newest_us=5, highest_block=1)
    sender.receive(report.encode(sealed_with(ours) if ours else None), 0.1)
    assert sender.counters["reports"] == 0 and sender.counters["bad_reports"] == 1


def test_whatever_is_changed_on_the_way_is_refused() -> None:
    sender, receiver, chance = build_sender(key=KEY), build_receiver(key=KEY), random.Random(3)
    seal = sealed_with(KEY)
    report = LossReport(
        stream_id=1, number=5, newest_us=5, highest_block=1, blocks=((1, 3),)
    ).encode(seal)
    assert decode_report(report, seal) == decode_report(report)
    for packet in sender.packets_due(0.5, 500):
        data = bytearray(packet.data)
        assert decode_header(packet.data, seal).keyed
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        assert receiver.receive(bytes(data), 0.5) == []
    assert receiver.received == 0
    with pytest.raises(MalformedPacket, match="key"):
        decode_report(report[:-1] + bytes([report[-1] ^ 1]), seal)


def test_packets_sent_again_later_disturb_nothing() -> None:
    """Recorded and sent again, as often as the stream's own: of blocks that are over, with stamps of then."""
    sender, receiver, chance = (
        build_sender(key=KEY, block_size=22, base=22),
        build_receiver(key=KEY),
        random.Random(1),
    )
    recorded: list[bytes] = []
    delivered: list[int] = []
    for step in range(2000):
        now = 0.002 * (step + 1)
        fresh = [p.data for p in sender.packets_due(now, 500)]
        recorded += fresh
        old = [chance.choice(recorded) for _ in fresh] if step > 100 else []
        for data in (*old, *fresh):
            delivered += [
                e.index for e in receiver.receive(data, now) if isinstance(e, SourceDelivered)
            ]
    assert sorted(delivered) == list(range(sender.counters["source"]))
    assert receiver.counters["restarts"] == 0
