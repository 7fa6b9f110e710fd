"""Measures packets per second of a stream's ends on one core, beside sendmmsg and recvmmsg.

Both ends are complete: parity and late parity, changing block sizes, path numbers, loss reports,
and the logs of an emulated run. All packets and reports are authenticated with a key, unless
``--no-key`` is given. The figures are medians of rounds in which all rows take turns. The sockets
are connected by a veth pair in a network namespace, which needs root or user namespaces.
"""

from __future__ import annotations

import argparse
import gc
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fec.adapters.raw_sockets import DatagramReceiver, FrameSender, Messages, RowReceiver
from fec.adapters.scapy_layer import FrameTemplate
from fec.code.reed_solomon import ReedSolomonCode
from fec.protocol.batches import MAX_RECEIVED, MAX_SENT, BatchReceiver, BatchSender
from fec.protocol.compiled.receiver import CompiledReceiver
from fec.protocol.receiver import StreamReceiver
from fec.protocol.receiver_types import ReceiverParameters, SourceDelivered
from fec.protocol.sender import SenderParameters, StreamSender
from fec.protocol.wire import HEADER_BYTES, STREAM_UDP_PORT
from fec.redundancy.block_size_control import FixedBlockSize
from fec.redundancy.labels import LABELS, LabelOrder, RandomLabels, StratifiedLabels
from testbed.stream.judgement.packet_logs import ReceivedLog, SentLog

M = 20
RATE_PPS = 1e6
# The sender is asked for packets at this interval.
TICK_S = 800e-6
REPORT_PACKETS = 2_000
PLAYBACK_S = 0.04
# Share of the packets whose loss the block size control expects.
EXPECTED_LOSS = 0.05
# Number of different payloads.
PAYLOADS = 251
# Environment variable that is set in the network namespace.
INSIDE = "TESTBED_BENCH_NAMESPACE"
MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
ADDRESSES = ("10.77.0.1", "10.77.0.2")
# Option of a socket in Linux, which Python does not define.
SO_RCVBUFFORCE = 33
RECEIVE_BUFFER_BYTES = 256 << 20
# The number of the path of each label.
PATHS = bytes([1]) * 20_000 + bytes([2]) * 20_000 + bytes([3]) * (LABELS - 40_000)
KEY = bytes(range(32))
# Handles packets, and returns their number.
Work = Callable[[], int]
# Prepares a measurement.
Prepare = Callable[[], Work]


def random_labels() -> LabelOrder:
    return RandomLabels(1)


ORDERS: dict[str, Callable[[], LabelOrder]] = {
    "stratified": StratifiedLabels,
    "random": random_labels,
}


class ChangingBlockSize(FixedBlockSize):
    """N changes every millisecond, between three sizes."""

    def block_size_at(self, begins_s: float) -> int:
        return self.size + int(begins_s * 1000) % 3


class Stream:
    """A stream of a million source packets per second in virtual time.

    It has the reports that the sender receives, and the packets that the receiver receives, with
    their times. Therefore all ends that run it do the same.
    """

    def __init__(
        self, symbol_bytes: int, packets: int, loss: float, labels: str, key: bytes | None
    ) -> None:
        self.symbol_bytes = symbol_bytes
        self.packets = packets
        self.labels = labels
        self.key = key
        self.payloads = [bytes([value]) * (symbol_bytes - 2) for value in range(PAYLOADS)]
        self.receiver_parameters = ReceiverParameters(
            source_packets=M,
            symbol_bytes=symbol_bytes,
            report_packets=REPORT_PACKETS,
            report_interval_s=10.0,
            key=key,
        )
        self.reports: list[tuple[float, bytes]] = []
        self.arrivals: list[tuple[int, bytes]] = []
        self.times: list[float] = []
        sender = self.sender(StreamSender)
        receiver = self.receiver(StreamReceiver)
        rng = np.random.default_rng(1)
        now_s = 0.0
        sent = 0
        while sent < packets:
            now_s += TICK_S
            batch = sender.packets_due(now_s, MAX_SENT)
            sent += len(batch)
            for packet in batch:
                if rng.random() >= loss:
                    self.arrivals.append((packet.label, packet.data))
                    self.times.append(now_s)
                    receiver.receive(packet.data, now_s)
                for report in receiver.reports_due(now_s):
                    self.reports.append((now_s, report))
                    sender.receive(report, now_s)
        self.counters = {**sender.counters, **receiver.counters}

    def sender(self, kind: type[StreamSender], **options: bytes) -> StreamSender:
        """Return a sender of this class."""
        parameters = SenderParameters(
            source_packets=M,
            symbol_bytes=self.symbol_bytes,
            rate_pps=RATE_PPS,
            playback_s=PLAYBACK_S,
            session=1,
            delay_of_label=[1e-4] * LABELS,
            key=self.key,
        )
        control = ChangingBlockSize(M + 2, largest=M + 8, late_parity=True, loss=EXPECTED_LOSS)
        payloads = self.payloads

        # The cheapest possible source of payloads.
        def payload(index: int) -> bytes:
            return payloads[index % PAYLOADS]

        code = ReedSolomonCode(M)
        order = ORDERS[self.labels]()
        build: Any = kind
        sender: StreamSender = build(parameters, code, order, control, payload, PATHS, **options)
        return sender

    def receiver(self, kind: type[StreamReceiver]) -> StreamReceiver:
        """Return a receiver of this class."""
        return kind(self.receiver_parameters, ReedSolomonCode(M))


def rate(prepare: Prepare) -> float:
    """Return packets per second of processor time.

    Other load on the machine has less influence on it than on the time by the clock.
    """
    gc.collect()
    work = prepare()
    start_s = time.process_time()
    count = work()
    return count / (time.process_time() - start_s)


class Wire:
    """A veth pair: frames are sent on one end, and a UDP socket receives them at the other.

    A send includes the path into the receiving socket, because the kernel delivers the frame within
    the call. The socket is emptied between rounds. The methods prepare measurements.
    """

    def __init__(self, stream: Stream) -> None:
        template = FrameTemplate(
            src_mac=MACS[0], dst_mac=MACS[1], src_ip=ADDRESSES[0], dst_ip=ADDRESSES[1]
        )
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        raw.bind(("bench0", 0))
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
        self.socket.bind((ADDRESSES[1], STREAM_UDP_PORT))
        self.stream = stream
        self.frames = FrameSender(raw, template)
        self.datagrams = DatagramReceiver(
            self.socket, limit=MAX_RECEIVED, timestamps=True, peer=ADDRESSES[0]
        )
        frame_bytes = template.header_bytes + HEADER_BYTES + stream.symbol_bytes
        self.ready = Messages(np.zeros((MAX_SENT, frame_bytes), np.uint8))
        self.ready.rows[:, : template.header_bytes] = list(
            template.headers_for(HEADER_BYTES + stream.symbol_bytes)
        )
        receiver = BatchReceiver(stream.receiver_parameters, ReedSolomonCode(M))
        self.rows = RowReceiver(self.socket, receiver, ADDRESSES[0])

    def kernel_sends(self) -> Work:
        """Send ready frames."""
        labels = np.array([label for label, _ in self.stream.arrivals[:MAX_SENT]])
        offset = FrameTemplate.label_offset
        self.ready.rows[:, offset] = labels >> 8
        self.ready.rows[:, offset + 1] = labels & 255

        def work() -> int:
            sent = 0
            while sent < self.stream.packets:
                self.frames.send_rows(self.ready, labels)
                sent += MAX_SENT
            return sent

        return work

    def sends(self) -> Work:
        """Run a sender that sends in batches."""
        stream = self.stream
        log = SentLog()
        headers = self.frames.template.headers_for(HEADER_BYTES + stream.symbol_bytes)
        sender = stream.sender(BatchSender, headers=headers)
        reports = list(reversed(stream.reports))
        assert isinstance(sender, BatchSender)
        frames = Messages(sender.rows)

        def work() -> int:
            now_s = 0.0
            sent = 0
            while sent < stream.packets:
                now_s += TICK_S
                count = sender.fill(now_s)
                if count:
                    self.frames.send_rows(frames, sender.log[:count, 3])
                    log.add_batch(now_s, now_s, sender.log[:count])
                    sent += count
                while reports and reports[-1][0] <= now_s:
                    _, report = reports.pop()
                    sender.receive(report, now_s)
            assert sender.counters["late_parity"] == stream.counters["late_parity"], (
                "another stream than the plain one"
            )
            return sent

        return work

    def sends_one_by_one(self) -> Work:
        """Run a sender that sends packet by packet."""
        stream = self.stream
        log = SentLog()
        sender = stream.sender(StreamSender)
        reports = list(reversed(stream.reports))

        def work() -> int:
            now_s = 0.0
            sent = 0
            while sent < stream.packets:
                now_s += TICK_S
                for packet in sender.packets_due(now_s, MAX_SENT):
                    self.frames.send(packet.label, packet.data)
                    log.add(
                        now_s,
                        packet.due_s,
                        packet.block,
                        packet.symbol,
                        packet.label,
                        packet.block_size,
                    )
                    sent += 1
                while reports and reports[-1][0] <= now_s:
                    _, report = reports.pop()
                    sender.receive(report, now_s)
            return sent

        return work

    def kernel_receives(self) -> Work:
        """Receive rows, and ignore them."""

        def work() -> int:
            received = 0
            while count := self.rows.receive():
                received += count
            return received

        return work

    def library_receives(self) -> Work:
        """Receive datagrams with Python's standard library, and ignore them."""

        def work() -> int:
            received = 0
            while datagrams := self.datagrams.receive():
                received += len(datagrams)
            return received

        return work

    def receives(self, *, events: bool = False) -> Work:
        """Run a receiver that receives in batches.

        Args:
            events: Whether the receiver creates an event for each packet.
        """
        receiver = self.stream.receiver(CompiledReceiver)
        assert isinstance(receiver, CompiledReceiver)
        log = ReceivedLog()
        rows = RowReceiver(self.socket, receiver, ADDRESSES[0])
        times = np.array(self.stream.times)

        def work() -> int:
            received = 0
            delivered = 0
            while count := rows.receive():
                receiver.times[:count] = times[received : received + count]
                batch_events = receiver.receive_many(count)
                if events:
                    delivered += count_delivered(batch_events)
                else:
                    delivered += len(batch_events.sources()[0])
                log.add_rows(receiver.log[: receiver.logged])
                receiver.reports_due(receiver.times[count - 1])
                received += count
            assert len(log) == received
            assert receiver.received == received
            assert receiver.counters["delivered"] == delivered
            return received

        return work

    def receives_events(self) -> Work:
        """Run a receiver that receives in batches, and creates an event for each packet."""
        return self.receives(events=True)

    def receives_one_by_one(self) -> Work:
        """Run a receiver that receives packet by packet."""
        receiver = self.stream.receiver(StreamReceiver)
        log = ReceivedLog()
        times = self.stream.times

        def work() -> int:
            received = 0
            while datagrams := self.datagrams.receive():
                count = len(datagrams)
                self.datagrams.arrival_times_s(count)
                arrival_times = times[received : received + count]
                for data, arrival_s in zip(datagrams, arrival_times, strict=True):
                    count_delivered(receiver.receive(data, arrival_s))
                    log.add(arrival_s, int.from_bytes(data[4:7], "big"), data[7])
                receiver.reports_due(arrival_s)
                received += count
            return received

        return work

    def after_draining(self, prepare: Prepare) -> float:
        """Empty the receiving socket, and return the rate of a measurement."""
        self.kernel_receives()()
        return rate(prepare)

    def after_filling(self, prepare: Prepare) -> float:
        """Send all packets into the receiving socket, and return the rate of a measurement."""
        self.kernel_receives()()
        for label, data in self.stream.arrivals:
            self.frames.send(label, data)
        return rate(prepare)


def count_delivered(events: Iterable[object]) -> int:
    """Return the number of source packets that these events deliver."""
    return sum(isinstance(event, SourceDelivered) for event in events)


def enter_namespace() -> None:
    """Run this program again in a network namespace, if that is possible."""
    if os.environ.get(INSIDE):
        return
    command = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]
    trial = subprocess.run([*command, "true"], check=False, capture_output=True)
    if trial.returncode:
        return
    os.environ[INSIDE] = "1"
    os.execvp(command[0], [*command, sys.executable, *sys.argv])


def create_wire() -> None:
    """Create the veth pair."""
    for line in (
        f"link add bench0 address {MACS[0]} mtu 9000 "
        f"type veth peer name bench1 address {MACS[1]} mtu 9000",
        f"addr add {ADDRESSES[1]}/24 dev bench1",
        "link set bench0 up",
        "link set bench1 up",
        "link set lo up",
    ):
        subprocess.run(["ip", *line.split()], check=True)
    # The interfaces need a moment.
    time.sleep(0.2)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--symbol-bytes", type=int, default=256, help="size of a symbol")
    parser.add_argument("--packets", type=int, default=100_000, help="number of packets")
    parser.add_argument("--repeats", type=int, default=5, help="number of rounds")
    parser.add_argument("--loss", type=float, nargs="+", default=[0.0, 0.02], help="loss rates")
    parser.add_argument(
        "--labels", nargs="+", choices=tuple(ORDERS), default=list(ORDERS), help="label orders"
    )
    parser.add_argument("--no-key", action="store_true", help="checksums (CRC32) instead of a key")
    options = parser.parse_args(arguments)
    enter_namespace()
    if not os.environ.get(INSIDE):
        print("no network namespace here: nothing can be measured")
        return
    # The ends of a session do the same.
    gc.disable()
    create_wire()
    print(
        f"symbols of {options.symbol_bytes} bytes, M = {M}, {options.packets} packets; "
        "thousands of packets a second of processor time, "
        f"medians of {options.repeats} rounds;\nload before: {os.getloadavg()[0]:.1f}"
    )
    key = None if options.no_key else KEY
    for labels in options.labels:
        for loss in options.loss:
            stream = Stream(options.symbol_bytes, options.packets, loss, labels, key)
            print_table(stream, loss, options.repeats)


class Measurement(NamedTuple):
    """A row of the table.

    Attributes:
        name: Its name.
        prepare: Prepares the measurement.
        sends: Whether packets are sent; otherwise they are received.
    """

    name: str
    prepare: Prepare
    sends: bool


def print_table(stream: Stream, loss: float, repeats: int) -> None:
    """Measure all rows in turn, and print their medians, also relative to the kernel."""
    wire = Wire(stream)
    kernel_sends = Measurement(
        "the kernel's sendmmsg, 1024 ready frames a call", wire.kernel_sends, True
    )
    kernel_receives = Measurement(
        "the kernel's recvmmsg, 512 a call, stamped", wire.kernel_receives, False
    )
    rows = [
        kernel_sends,
        Measurement("whole sender, in batches", wire.sends, True),
        Measurement("whole sender, packet by packet", wire.sends_one_by_one, True),
        kernel_receives,
        Measurement("the standard library's recvmsg, stamped", wire.library_receives, False),
        Measurement("whole receiver, in batches", wire.receives, False),
        Measurement("whole receiver, in batches, an event a packet", wire.receives_events, False),
        Measurement("whole receiver, packet by packet", wire.receives_one_by_one, False),
    ]
    rates: dict[str, list[float]] = {row.name: [] for row in rows}
    for _ in range(repeats):
        for row in rows:
            measure = wire.after_draining if row.sends else wire.after_filling
            rates[row.name].append(measure(row.prepare))
    counts = []
    for name in ("late_parity", "reports", "recovered"):
        counts.append(f"{stream.counters.get(name, 0)} {name}")
    seals = "CRC32" if stream.key is None else "keyed"
    print(f"\n{stream.labels} labels, {seals}, {loss:.0%} lost; {', '.join(counts)}")
    for row in rows:
        kernel = kernel_sends if row.sends else kernel_receives
        ratios = []
        for row_rate, kernel_rate in zip(rates[row.name], rates[kernel.name], strict=True):
            ratios.append(row_rate / kernel_rate)
        median_rate = statistics.median(rates[row.name])
        print(
            f"{row.name:<50}{median_rate / 1e3:>8.0f}{statistics.median(ratios):>8.2f} "
            "of the kernel's"
        )


if __name__ == "__main__":
    main()
