"""A sender and a receiver joined by two simulated directions, in virtual time: what the tests of streams share."""

from __future__ import annotations

import heapq
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields

from fec.code.reed_solomon import ReedSolomonCode
from fec.protocol.receiver import StreamReceiver
from fec.protocol.receiver_types import Event, ReceiverParameters
from fec.protocol.sender import OutgoingPacket, SenderParameters, StreamSender
from fec.redundancy.adaptation import AdaptationParameters, BlockSizeController
from fec.redundancy.block_size_control import fixed_block_size
from fec.redundancy.labels import LABELS, LabelOrder, StratifiedLabels

Forward = Callable[[OutgoingPacket, float], Sequence[float]]
"""(packet, time sent) -> delay of each copy that arrives; none: lost."""
Backward = Callable[[int, int, float], Sequence[float]]
"""(return path 0 or 1, running number, time sent) -> delay of each copy that arrives."""


def payload(index: int) -> bytes:
    return index.to_bytes(6, "big") * 3


def build_sender(
    policy: Callable[[float], int] = lambda loss: 0,
    labels: LabelOrder | None = None,
    **changes: object,
) -> StreamSender:
    """``changes``: of the sender's parameters and of the control's alike; ``block_size``: N for good; ``of_bursts``: as
    of the control."""
    values: dict[str, object] = {
        "source_packets": 20,
        "symbol_bytes": 24,
        "rate_pps": 1000.0,
        "base": 22,
    }
    values |= {"session": 0, "delay_of_label": bytes(LABELS)} | changes
    fixed, of_bursts = values.pop("block_size", None), values.pop("of_bursts", None)
    own = {field.name for field in fields(AdaptationParameters)}
    adaptation = AdaptationParameters(
        **{name: value for name, value in values.items() if name in own}
    )  # type: ignore[arg-type]
    parameters = SenderParameters(
        **{name: value for name, value in values.items() if name not in own}
    )  # type: ignore[arg-type]
    code = ReedSolomonCode(parameters.source_packets)
    control = (
        BlockSizeController(adaptation, policy, of_bursts)
        if fixed is None
        else fixed_block_size(fixed)
    )  # type: ignore[arg-type]
    return StreamSender(parameters, code, labels or StratifiedLabels(), control, payload)


def build_receiver(**changes: object) -> StreamReceiver:
    values: dict[str, object] = {"source_packets": 20, "symbol_bytes": 24}
    parameters = ReceiverParameters(**(values | changes))  # type: ignore[arg-type]
    return StreamReceiver(parameters, ReedSolomonCode(parameters.source_packets))


@dataclass
class DelayLoop:
    """``run_until`` moves both ends to a time; ``sent``, ``events`` and ``reported_s`` (reports' arrivals) record what
    happened."""

    sender: StreamSender
    receiver: StreamReceiver
    forward: Forward = lambda packet, at: (0.002,)
    backward: Backward = lambda way, number, at: (0.002,)
    sent: list[tuple[float, OutgoingPacket]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    reported_s: list[float] = field(default_factory=list)
    now_s: float = 0.0
    began_s: float = 0.0
    """When the sender was started: its clock began then."""
    _flying: list[tuple[float, int, bool, bytes]] = field(default_factory=list)
    _count: int = 0
    _reports: int = 0

    def run_until(self, end_s: float) -> None:
        while True:
            arrival = self._flying[0][0] if self._flying else float("inf")
            due = min(
                arrival, self.began_s + self.sender.next_due_s(), self.receiver.next_deadline_s()
            )
            if due > end_s:
                self.now_s = end_s
                return
            self.now_s = max(self.now_s, due)
            self._step()

    def finish(self) -> None:
        """End the source and let everything arrive or expire."""
        self.sender.finish_source()
        self.run_until(self.now_s + 3.0)
        assert self.sender.next_due_s() == math.inf
        self.events += self.receiver.advance(self.now_s + 3.0)

    def _step(self) -> None:
        now = self.now_s
        while self._flying and self._flying[0][0] <= now:
            at, _, to_receiver, data = heapq.heappop(self._flying)
            if to_receiver:
                self.events += self.receiver.receive(data, at)
            else:
                self.reported_s.append(at)
                self.sender.receive(data, at - self.began_s)
        for packet in self.sender.packets_due(now - self.began_s + (1e-9 if self.began_s else 0.0)):
            self.sent.append((now, packet))
            self._carry(self.forward(packet, now), packet.data, True)
        self.events += self.receiver.advance(now)
        for report in self.receiver.reports_due(now):
            for way in (0, 1):
                self._carry(self.backward(way, self._reports, now), report, False)
            self._reports += 1

    def _carry(self, delays: Sequence[float], data: bytes, to_receiver: bool) -> None:
        for delay in delays:
            self._count += 1
            heapq.heappush(self._flying, (self.now_s + delay, self._count, to_receiver, data))


def cut(start: int, stop: int, from_s: float, to_s: float, delay_s: float = 0.002) -> Forward:
    """Labels in [start, stop) are lost from one time to another."""

    def forward(packet: OutgoingPacket, at: float) -> Sequence[float]:
        return () if start <= packet.label < stop and from_s <= at < to_s else (delay_s,)

    return forward


def crc_of(packet: bytes | bytearray) -> bytes:
    """The CRC that makes a packet right whose own four bytes are zeros."""
    return zlib.crc32(packet).to_bytes(4, "big")
