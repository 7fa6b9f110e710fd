"""Packets that come when they come: nothing handed on twice, altered, or after its time, whatever the network does; all
of it where the code allows."""

from __future__ import annotations

import math
import random
from collections import defaultdict

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fec.code.variable_lengths import VariableLengthCode
from fec.errors import FecError
from fec.protocol.events.event_receiver import Delivered, EventReceiver, FlowOrder, _AnyPace
from fec.protocol.events.event_sender import EventPolicy, EventSender
from fec.protocol.probation import EARLY_BLOCKS
from fec.protocol.receiver_types import ReceiverParameters
from fec.protocol.sender import SenderParameters
from fec.protocol.wire import HEADER_BYTES, decode_header
from fec.redundancy.adaptation import AdaptationParameters, BlockSizeController
from fec.redundancy.block_size import stratified_tolerance_block_size
from fec.redundancy.block_size_control import BlockSizeControl, fixed_block_size
from fec.redundancy.labels import WEYL_MULTIPLIER, StratifiedLabels
from fec.redundancy.short_blocks import ShortBlocks
from tests.helpers import delay_loop
from tests.helpers.delay_loop import DelayLoop, cut
from tests.helpers.drawn import SOAK, drawn

M, SYMBOL_BYTES, PLAYBACK_S = 8, 128, 0.4
FUZZED = 2_000_000 if SOAK else 4_000
Offered = tuple[float, int, bytes]
"""(time, flow, payload)"""

offers = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.0002, 0.003, 0.02, 0.3]),
        st.integers(0, 3),
        st.integers(0, 122),
        st.booleans(),
    ),
    max_size=60,
)


def payloads(drawn_offers: list[tuple[float, int, int, bool]]) -> list[Offered]:
    """Distinct payloads, some of which end in zeros or are nothing but zeros."""
    at, found = 0.0, list[Offered]()
    for index, (gap, flow, size, zeros) in enumerate(drawn_offers):
        at += gap
        found.append((at, flow, bytes(size) if zeros else (index.to_bytes(4, "big") * 31)[:size]))
    return found


def ends(
    control: BlockSizeControl,
    policy: EventPolicy,
    m: int = M,
    order_s: float = 0.0,
    **changes: float,
) -> DelayLoop:
    code = VariableLengthCode(m)
    parameters = SenderParameters(
        source_packets=m, symbol_bytes=SYMBOL_BYTES, rate_pps=1000.0, playback_s=PLAYBACK_S
    )
    receiving = ReceiverParameters(
        source_packets=m, symbol_bytes=SYMBOL_BYTES, playback_s=PLAYBACK_S
    )
    sender = EventSender(parameters, code, StratifiedLabels(), control, policy)
    return DelayLoop(sender, EventReceiver(receiving, code, order_s))  # type: ignore[arg-type]


def with_parity(count: int, m: int = M, order_s: float = 0.0) -> DelayLoop:
    return ends(
        fixed_block_size(m + count), EventPolicy(parity_of=lambda k, size: count), m, order_s
    )


def carry(loop: DelayLoop, offered: list[Offered]) -> list[Delivered]:
    for at, flow, payload in offered:
        loop.run_until(at)
        for packet in loop.sender.offer(payload, at, flow):
            loop.sent.append((at, packet))
            loop._carry(loop.forward(packet, at), packet.data, True)
    loop.run_until(loop.now_s + 3)
    assert all(isinstance(event, Delivered) for event in loop.events)
    return loop.events  # type: ignore[return-value]


def check_once_and_intact(
    delivered: list[Delivered], offered: list[Offered], slack_s: float
) -> int:
    """Each as it was offered, at most once, and in its time; how many came."""
    sent = defaultdict[int, list[Offered]](list)
    for one in offered:
        sent[one[1]].append(one)
    assert len({(packet.flow, packet.number) for packet in delivered}) == len(delivered)
    for packet in delivered:
        at, _, payload = sent[packet.flow][packet.number]
        assert packet.payload == payload
        assert at <= packet.came_s <= packet.at_s <= at + PLAYBACK_S + slack_s
    return len(delivered)


def in_order(delivered: list[Delivered]) -> bool:
    numbers = defaultdict[int, list[int]](list)
    for packet in delivered:
        numbers[packet.flow].append(packet.number)
    return all(found == sorted(found) for found in numbers.values())


@drawn(80)
@given(
    offers,
    st.integers(0, 10**9),
    st.floats(0, 1),
    st.floats(0, 0.2),
    st.floats(0, 0.5),
    st.sampled_from([0.0, 0.08]),
)
def test_nothing_is_handed_on_twice_altered_or_late(
    drawn_offers: list[tuple[float, int, int, bool]],
    seed: int,
    loss: float,
    jitter_s: float,
    twice: float,
    order_s: float,
) -> None:
    chance = random.Random(seed)

    def forward(packet, at):
        return (
            []
            if chance.random() < loss
            else [chance.random() * jitter_s for _ in range(1 + (chance.random() < twice))]
        )

    loop = with_parity(2, order_s=order_s)
    loop.forward = forward
    offered = payloads(drawn_offers)
    check_once_and_intact(carry(loop, offered), offered, slack_s=jitter_s + order_s + 1e-5)


@drawn(80)
@example([(0.02, 0, 5, False)] * 12, 3)
@given(offers, st.integers(0, 10**9))
def test_repairable_packets_arrive_in_order(
    drawn_offers: list[tuple[float, int, int, bool]], seed: int
) -> None:
    chance, lost = random.Random(seed), defaultdict[int, int](int)

    def forward(packet, at):
        if lost[packet.block] < 2 and chance.random() < 0.4:
            lost[packet.block] += 1
            return ()
        return (0.001 + chance.random() * 0.01,)

    loop = with_parity(2, order_s=0.2)
    loop.forward, loop.backward = forward, lambda way, number, at: ()
    offered = payloads(drawn_offers)
    delivered = carry(loop, offered)
    assert check_once_and_intact(delivered, offered, slack_s=0.3) == len(offered)
    assert in_order(delivered)


@drawn(15)
@given(offers, st.integers(0, 65535), st.integers(1, 30000))
def test_short_blocks_stand_the_failure_that_they_are_made_for(
    drawn_offers: list[tuple[float, int, int, bool]], start: int, width: int
) -> None:
    """One cut cable, no report ever: the exact worst window of each block's own length suffices."""
    lost = [(start, min(65536, start + width))]
    short = ShortBlocks([lost], M, WEYL_MULTIPLIER)
    loop = ends(fixed_block_size(min(255, short.whole)), EventPolicy(parity_of=short.parity))
    loop.forward, loop.backward = cut(*lost[0], 0.0, 1e9), lambda way, number, at: ()
    offered = payloads(drawn_offers)
    assert check_once_and_intact(carry(loop, offered), offered, slack_s=0.01) == len(offered)


def test_link_failure_loses_nothing_with_an_adaptive_sender() -> None:
    def size_for(loss: float) -> int:
        return stratified_tolerance_block_size(round(min(0.9, loss + 0.015), 3), 20)

    control = BlockSizeController(AdaptationParameters(base=22, hold_s=0.5), size_for)
    short = ShortBlocks([[(0, 16384)]], 20, WEYL_MULTIPLIER)
    loop = ends(control, EventPolicy(parity_of=short.parity), 20, order_s=0.08)
    loop.forward = cut(0, 16384, 0.5, 1.5)
    chance = random.Random(5)
    offered = [(k * 0.004, k % 3, chance.randbytes(chance.randint(20, 120))) for k in range(500)]
    delivered = carry(loop, offered)
    assert check_once_and_intact(delivered, offered, slack_s=0.1) == 500 and in_order(delivered)
    sizes = [packet.block_size for _, packet in loop.sent]
    assert max(sizes) >= short.whole and min(sizes[-20:]) < 25
    assert loop.sender.counters["late_parity"] > 0 and loop.sender.counters["source"] == 500


@pytest.mark.parametrize("payload_bytes", [84, 110])
def test_a_sparse_flow_costs_at_most_two_and_a_half_times_its_bytes(payload_bytes: int) -> None:
    """Fifty packets a second at rest, with Ethernet, IP and UDP headers; each block by itself cost 4.9 times."""
    short = ShortBlocks([[(0, 16384)]], 20, WEYL_MULTIPLIER)
    loop = ends(fixed_block_size(22), EventPolicy(parity_of=short.parity), 20)
    offered = [(k * 0.02, 0, bytes([k]) * payload_bytes) for k in range(200)]
    assert len(carry(loop, offered)) == 200
    wire = sum(42 + len(packet.data) for _, packet in loop.sent)
    assert wire <= 2.5 * 200 * payload_bytes
    assert loop.sender.counters["short_blocks"] == 50


def test_a_missing_packet_holds_its_own_flow_alone() -> None:
    loop = with_parity(0, order_s=0.08)
    loop.forward = lambda packet, at: () if packet.symbol == 0 and packet.block == 0 else (0.001,)
    offered = [(0.0, 1, b"lost"), (0.001, 1, b"held"), (0.002, 2, b"free")]
    delivered = carry(loop, offered)
    waited = {packet.payload: round(packet.at_s - packet.came_s, 6) for packet in delivered}
    assert waited == {b"free": 0.0, b"held": 0.08}


def test_a_block_closes_when_it_is_full_flushed_or_over() -> None:
    sender = with_parity(1).sender
    assert [p.symbol for p in sender.offer(b"a", 0.0)] == [
        0
    ] and sender.next_due_s() == pytest.approx(0.08)
    assert [p.symbol for p in sender.flush(0.01)] == [M] and sender.flush(0.01) == []
    assert sender.next_due_s() == float("inf")
    sent = [p.symbol for k in range(M) for p in sender.offer(bytes([k]), 0.02)]
    assert sent == [*range(M), M]
    for k in range(4):
        sender.offer(bytes([k]), 0.03)
    assert sender.next_due_s() == pytest.approx(0.05)
    parity = sender.due(0.05)
    header = decode_header(parity[0].data)
    assert header.short and header.source_packets == 4 and header.encoding_symbol_id == M
    assert parity[0].label == StratifiedLabels().label(
        2 + M + 1 + 4
    )  # after two blocks and its own four packets


def test_zeros_that_fill_symbols_up_are_not_sent() -> None:
    loop = with_parity(1)
    carry(loop, [(0.0, 0, b"x" * 10), (0.0, 0, b"")])
    assert [len(packet.data) - HEADER_BYTES for _, packet in loop.sent] == [16, 6, 16]


def test_bad_values_are_refused_before_anything_is_sent() -> None:
    sender = with_parity(1).sender
    with pytest.raises(FecError, match="at most 122 bytes"):
        sender.offer(bytes(123), 0.0)
    with pytest.raises(FecError, match="0 to 255"):
        sender.offer(b"", 0.0, 256)
    assert sender.counters["source"] == 0
    with pytest.raises(FecError, match="give more than 0"):
        EventPolicy(parity_of=lambda k, size: 0, flush_s=0.0)
    with pytest.raises(FecError, match=r"at most 0\.1 s"):
        ends(fixed_block_size(M), EventPolicy(parity_of=lambda k, size: 0, flush_s=0.2))
    with pytest.raises(FecError, match="playback"):
        with_parity(1, order_s=1.0)


def test_the_clocked_receiver_refuses_short_blocks() -> None:
    loop = with_parity(1)
    carry(loop, [(0.0, 0, b"x" * 10)])
    clocked = delay_loop.build_receiver(source_packets=M, symbol_bytes=SYMBOL_BYTES)
    for _, packet in loop.sent:
        assert clocked.receive(packet.data, 0.0) == []
    assert clocked.rejected["shape"] == 2


@pytest.mark.scaled
@pytest.mark.soak
def test_arbitrary_bytes_are_counted_and_never_raise() -> None:
    """Random bytes, damaged packets, and damaged ones whose CRC was made right again."""
    chance = random.Random(11)
    loop = with_parity(2)
    carry(loop, [(k * 0.005, k % 4, chance.randbytes(k % 90)) for k in range(200)])
    packets = [packet.data for _, packet in loop.sent]
    receiver = with_parity(2, order_s=0.08).receiver
    for count in range(FUZZED):
        data = bytearray(
            chance.choice(packets) if count % 4 else chance.randbytes(chance.randint(0, 140))
        )
        for _ in range(count % 3 * bool(data)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if count % 4 == 3 and len(data) >= HEADER_BYTES:
            data[HEADER_BYTES - 4 : HEADER_BYTES] = bytes(4)
            data[HEADER_BYTES - 4 : HEADER_BYTES] = delay_loop.crc_of(data)
        for packet in receiver.receive(bytes(data), count * 1e-4):
            assert 0 <= packet.flow < 256 and len(packet.payload) <= SYMBOL_BYTES - 6
        receiver.reports_due(count * 1e-4)
        loop.sender.receive(bytes(data), 3.0 + count * 1e-4)
    assert receiver.received + sum(receiver.rejected.values()) == FUZZED


def test_unpaced_blocks_begin_in_a_burst_then_one_per_millisecond() -> None:
    schedule = _AnyPace()
    assert schedule.may_begin(70_000, -1, 0) and not schedule.may_begin(EARLY_BLOCKS + 1, 0, 0)
    for block, stamp_us in ((3, 10_000), (4, 10_100), (9, 500_000), (9, 900_000), (5, 950_000)):
        schedule.half_arrived(block, stamp_us)
        assert schedule.confirmed and schedule.period_us is None  # no rate is known, whatever came
    assert (
        schedule.earliest_us(10) == -math.inf
        and schedule.silent_s(20) == _AnyPace().silent_s(1) > 0
    )
    latest = [
        9 + EARLY_BLOCKS + ahead for ahead in (0, 0, 3)
    ]  # counted from the latest block of which half had come
    for stamp_us, block in zip((499_000, 500_999, 503_999), latest, strict=True):
        assert schedule.may_begin(block, 9, stamp_us) and not schedule.may_begin(
            block + 1, 9, stamp_us
        )


def test_flow_already_running_is_in_order_from_the_first_packet() -> None:
    order, first = FlowOrder(0.08), 9_000_000
    assert not [order.take(1, first + k, b"", 0.0, False) for k in (0, 2)][-1]
    found = order.take(1, first + 1, b"", 0.04, False) + order.due(0.08)
    assert [packet.number - first for packet in found] == [0, 1, 2]
