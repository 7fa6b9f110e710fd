"""Both ends of an emulated stream in one process, joined by sockets of the loopback interface: frames leave one by a
pair of sockets, and their datagrams reach the other from the first one's address."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, cast

import pytest

from fec.adapters.raw_sockets import DatagramReceiver, FrameSender
from fec.adapters.scapy_layer import FrameTemplate
from fec.protocol.batches import MAX_RECEIVED
from fec.protocol.loss_report import MAX_REPORT_BYTES
from fec.protocol.wire import HEADER_BYTES
from testbed.stream.emulated import ends
from testbed.stream.emulated.ends import (
    ReceiverResult,
    SenderResult,
    prepare_receiver,
    prepare_sender,
)
from testbed.stream.endpoints import build_sender, label_sequence
from testbed.stream.plan import StreamPlan
from tests.helpers.compiled_packets import skip_without_c_module
from tests.testbed.stream.emulated.test_compiled_ends import plan_of, take_away

SINK, SOURCE, OTHER = "127.0.0.1", "127.0.0.2", "127.0.0.3"
KEY, SO_RCVBUFFORCE = bytes(32), 33
TEMPLATE = FrameTemplate(
    src_mac="02:00:00:00:00:01", dst_mac="02:00:00:00:00:02", src_ip=SOURCE, dst_ip=SINK
)
Lost = Callable[[int, int], bool]
"""Whether a packet is, by its block and symbol."""


@pytest.fixture(autouse=True)
def _compiled() -> None:
    skip_without_c_module()


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def datagrams(opened: ExitStack, address: str) -> socket.socket:
    sock = opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    with contextlib.suppress(PermissionError):
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
    sock.bind((address, 0))
    sock.setblocking(False)
    return sock


def frames_to(
    opened: ExitStack, by: socket.socket, to: socket.socket, lost: Lost = lambda *_: False
) -> FrameSender:
    """Whose datagrams go on from one socket to the other; the label is that of their UDP header."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    opened.enter_context(far)

    def carry() -> None:
        while frame := far.recv(4096):
            packet = frame[TEMPLATE.header_bytes :]
            if not (packet[0] and lost(int.from_bytes(packet[4:7], "big"), packet[7])):
                by.sendto(packet, to.getsockname())

    thread = threading.Thread(target=carry)
    thread.start()
    opened.callback(thread.join)
    opened.callback(near.close)
    opened.callback(near.send, b"")
    return FrameSender(near, TEMPLATE)


def run_both(
    opened: ExitStack, plan: StreamPlan, lost: Lost
) -> tuple[SenderResult, ReceiverResult]:
    source, sink = datagrams(opened, SOURCE), datagrams(opened, SINK)
    forward, backward = frames_to(opened, source, sink, lost), frames_to(opened, sink, source)
    reported = DatagramReceiver(source, largest=MAX_REPORT_BYTES + 1, peer=SINK)
    gauges = cast(Any, [0.0, 0.0]), cast(Any, [0.0, 0.0])
    runs = (
        prepare_sender(plan, KEY, forward, (source, reported), 0.0, gauges[0]),
        prepare_receiver(plan, KEY, backward, sink, SOURCE, gauges[1]),
    )
    start_s, results = time.monotonic() + 0.3, [None, None]  # type: list[Any]

    def note(number: int) -> None:
        results[number] = runs[number](start_s)

    threads = [threading.Thread(target=note, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gauges[0][0] == len(results[0].log.block) and gauges[1][0] == len(results[1].log.block)
    return results[0], results[1]


@pytest.mark.parametrize(
    ("labels", "without"),
    [
        ("stratified", None),
        ("random", "missing"),
        pytest.param("random", None, marks=pytest.mark.long),
        pytest.param("stratified", "missing", marks=pytest.mark.long),
    ],
)
def test_packets_arrive_unchanged_under_planned_labels(
    labels: str,
    without: str | None,
    opened: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of each block a source packet is lost."""
    if without:
        take_away(without, monkeypatch)
    plan = plan_of(labels=labels, block_size=24, playback_s=0.6)
    sent, came = run_both(opened, plan, lambda block, symbol: symbol == block % 20)
    numbers = list(zip(sent.log.block.tolist(), sent.log.symbol.tolist(), strict=True))
    order = label_sequence(plan)
    assert sent.log.label.tolist() == [
        order.label(24 * block + symbol) for block, symbol in numbers
    ]
    arrived = list(zip(came.log.block.tolist(), came.log.symbol.tolist(), strict=True))
    assert arrived == [(block, symbol) for block, symbol in numbers if symbol != block % 20]
    assert (sent.log.time_s[1:] >= sent.log.time_s[:-1]).all() and len(set(numbers)) == len(
        numbers
    ) > 1000
    counters = came.counters
    assert counters["delivered"] == sent.counters["sent_source"] == 20 * counters["recovered"]
    assert counters["corrupted"] == counters["foreign"] == came.socket_drops == 0
    assert sent.counters["sent_reports"] > 2 and len(sent.news.told_s) > 2


@pytest.mark.parametrize("without", [None, "missing"])
def test_delayed_receiver_reads_timely_packets_before_closing(
    without: str | None, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Foreign datagrams fill the batch in between."""
    if without:
        take_away(without, monkeypatch)
    plan = plan_of(block_size=7, playback_s=0.5, source_packets=5)
    source, sink, other = (
        datagrams(opened, SOURCE),
        datagrams(opened, SINK),
        datagrams(opened, OTHER),
    )
    monkeypatch.setattr(ends, "warm_up", lambda *_: None)
    receive = prepare_receiver(
        replace(plan, duration_s=1.2),
        KEY,
        frames_to(opened, sink, source),
        sink,
        SOURCE,
        cast(Any, [0.0]),
    )
    packets = build_sender(plan, key=KEY).packets_due(0.0022)
    assert [packet.symbol for packet in packets] == list(range(5))
    start_s = time.monotonic()
    source.sendto(packets[0].data, sink.getsockname())
    for _ in range(MAX_RECEIVED - 1):
        other.sendto(b"x", sink.getsockname())
    for packet in packets[1:]:
        source.sendto(packet.data, sink.getsockname())
    time.sleep(0.8)
    result = cast(ReceiverResult, receive(start_s))
    assert result.counters["foreign"] == MAX_RECEIVED - 1 and result.socket_drops == 0
    assert result.counters["decoded_blocks"] == 1 and "undecodable_blocks" not in result.counters
    assert len(result.log.block) == len({*result.log.symbol.tolist()}) == 5
    assert HEADER_BYTES + plan.stream.symbol_bytes == len(packets[0].data)
