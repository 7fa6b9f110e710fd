"""Measures packets per second through the ends of a stream on one core.

Sender and receiver are compared with the kernel's sendmmsg and recvmmsg alone. Both ends do
everything that they do in an emulated run: parity and late parity, changing block sizes, numbers of
paths, loss reports and logs. All packets and reports are sealed with a key, unless ``--no-key`` is
given. Figures are medians of rounds in which all rows take turns. Frames go over a veth pair in a
new network namespace, which needs root or user namespaces; without it nothing is measured.
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
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from fec.adapters.raw_sockets import DatagramReceiver, FrameSender, Messages, RowReceiver
from fec.adapters.scapy_layer import FrameTemplate
from fec.code.reed_solomon import ReedSolomonCode
from fec.protocol.batches import MOST, MOST_SENT, BatchReceiver, BatchSender
from fec.protocol.compiled.receiver import CompiledReceiver
from fec.protocol.receiver import StreamReceiver
from fec.protocol.receiver_types import ReceiverParameters, SourceDelivered
from fec.protocol.sender import SenderParameters, StreamSender
from fec.protocol.wire import HEADER_BYTES, STREAM_UDP_PORT
from fec.redundancy.block_size_control import FixedBlockSize
from fec.redundancy.labels import LABELS, LabelOrder, RandomLabels, StratifiedLabels
from testbed.stream.judgement.packet_logs import ReceivedLog, SentLog

# Source packets per block, and their rate.
M = 20
RATE_PPS = 1e6

# The ends run once in this interval of virtual time.
TICK_S = 800e-6

REPORT_PACKETS = 2_000
PLAYBACK_S = 0.04

# This variable of the environment is set inside the namespace.
INSIDE = "TESTBED_BENCH_NAMESPACE"
# Rows of the table with which the senders and the receivers behind them are compared.
KERNEL_SENDS = 0
KERNEL_RECEIVES = 3

MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
ADDRESSES = ("10.77.0.1", "10.77.0.2")
# From the headers of Linux; Python does not define it.
SO_RCVBUFFORCE = 33
# Number of the path of each label.
PATHS = bytes([1]) * 20_000 + bytes([2]) * 20_000 + bytes([3]) * (LABELS - 40_000)
KEY = bytes(range(32))
ORDERS: dict[str, Callable[[], LabelOrder]] = {
    "stratified": StratifiedLabels,
    "random": partial(RandomLabels, 1),
}


class Changing(FixedBlockSize):
    """A block size that changes every millisecond, in a cycle of three sizes."""

    def block_size_at(self, begins_s: float) -> int:
        """Return the size of a block that begins at this time."""
        return self.size + int(begins_s * 1000) % 3


class Stream:
    """A stream of a million source packets per second in virtual time.

    It records the reports for its sender, and the packets that arrive at its receiver, so that
    every kind of sender and receiver does the same work.

    Args:
        symbol_bytes: Size of a symbol.
        packets: Number of packets.
        loss: Loss rate.
        labels: A key of ORDERS.
        key: The key of the seals, or None for CRC32.
    """

    def __init__(
        self, symbol_bytes: int, packets: int, loss: float, labels: str, key: bytes | None
    ) -> None:
        self.symbol_bytes = symbol_bytes
        self.packets = packets
        self.labels = labels
        self.key = key
        self.payloads = [bytes([i]) * (symbol_bytes - 2) for i in range(251)]
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
        now = 0.0
        sent = 0
        while sent < packets:
            now += TICK_S
            batch = sender.packets_due(now, MOST_SENT)
            sent += len(batch)
            for packet in batch:
                if rng.random() >= loss:
                    self.arrivals.append((packet.label, packet.data))
                    self.times.append(now)
                    receiver.receive(packet.data, now)
                for report in receiver.reports_due(now):
                    self.reports.append((now, report))
                    sender.receive(report, now)
        self.counters = {**sender.counters, **receiver.counters}

    def sender(self, kind: type[StreamSender], **more: bytes) -> StreamSender:
        """Return a new sender of this kind."""
        parameters = SenderParameters(
            source_packets=M,
            symbol_bytes=self.symbol_bytes,
            rate_pps=RATE_PPS,
            playback_s=PLAYBACK_S,
            session=1,
            delay_of_label=[1e-4] * LABELS,
            key=self.key,
        )
        control = Changing(M + 2, largest=M + 8, late_parity=True, loss=0.05)
        payloads = self.payloads

        def source(i: int) -> bytes:
            # A payload takes as little time as possible.
            return payloads[i % 251]

        order = ORDERS[self.labels]()
        code = ReedSolomonCode(M)
        return kind(parameters, code, order, control, source, PATHS, **more)  # type: ignore[call-arg]

    def receiver(self, kind: type[StreamReceiver]) -> StreamReceiver:
        """Return a new receiver of this kind."""
        return kind(self.receiver_parameters, ReedSolomonCode(M))


# The work that is measured; returns the number of packets.
Work = Callable[[], int]
Prepare = Callable[[], Work]


def rate(prepare: Prepare) -> float:
    """Return packets per second of processor time, on which other load has little influence."""
    gc.collect()
    work = prepare()
    began = time.process_time()
    count = work()
    return count / (time.process_time() - began)


class Wire:
    """A veth pair: frames leave at one end, and a UDP socket receives them at the other.

    Sending includes the delivery to this socket, which the kernel does within the sender's call.
    The socket is emptied between the rounds.
    """

    def __init__(self, stream: Stream) -> None:
        template = FrameTemplate(
            src_mac=MACS[0], dst_mac=MACS[1], src_ip=ADDRESSES[0], dst_ip=ADDRESSES[1]
        )
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        raw.bind(("bench0", 0))
        self.arriving = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.arriving.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20)
        self.arriving.bind((ADDRESSES[1], STREAM_UDP_PORT))
        self.stream = stream
        self.frames = FrameSender(raw, template)
        self.datagrams = DatagramReceiver(
            self.arriving, most=MOST, timestamps=True, peer=ADDRESSES[0]
        )
        frame_bytes = template.header_bytes + HEADER_BYTES + stream.symbol_bytes
        self.ready = Messages(np.zeros((MOST_SENT, frame_bytes), np.uint8))
        self.ready.rows[:, : template.header_bytes] = list(
            template.headers_for(HEADER_BYTES + stream.symbol_bytes)
        )
        receiver = BatchReceiver(stream.receiver_parameters, ReedSolomonCode(M))
        self.rows = RowReceiver(self.arriving, receiver, ADDRESSES[0])

    def kernel_sends(self) -> Work:
        """Return the work of sending frames that are ready."""
        labels = np.array([label for label, _ in self.stream.arrivals[:MOST_SENT]])
        sent = 0
        offset = FrameTemplate.label_offset
        self.ready.rows[:, offset] = labels >> 8
        self.ready.rows[:, offset + 1] = labels & 255

        def work() -> int:
            nonlocal sent
            while sent < self.stream.packets:
                self.frames.send_rows(self.ready, labels)
                sent += MOST_SENT
            return sent

        return work

    def sends(self) -> Work:
        """Return the work of a sender in batches."""
        stream = self.stream
        log = SentLog()
        now = 0.0
        sent = 0
        headers = self.frames.template.headers_for(HEADER_BYTES + stream.symbol_bytes)
        sender = stream.sender(BatchSender, headers=headers)
        reports = list(reversed(stream.reports))
        assert isinstance(sender, BatchSender)
        frames = Messages(sender.rows)

        def work() -> int:
            nonlocal now, sent
            while sent < stream.packets:
                now += TICK_S
                count = sender.fill(now)
                if count:
                    self.frames.send_rows(frames, sender.log[:count, 3])
                    log.add_batch(now, now, sender.log[:count])
                    sent += count
                while reports and reports[-1][0] <= now:
                    sender.receive(reports.pop()[1], now)
            assert sender.counters["late_parity"] == stream.counters["late_parity"], (
                "another stream than the plain one"
            )
            return sent

        return work

    def sends_one_by_one(self) -> Work:
        """Return the work of a sender that sends packet by packet."""
        stream = self.stream
        log = SentLog()
        now = 0.0
        sent = 0
        sender = stream.sender(StreamSender)
        reports = list(reversed(stream.reports))

        def work() -> int:
            nonlocal now, sent
            while sent < stream.packets:
                now += TICK_S
                for packet in sender.packets_due(now, MOST_SENT):
                    self.frames.send(packet.label, packet.data)
                    log.add(
                        now,
                        packet.due_s,
                        packet.block,
                        packet.symbol,
                        packet.label,
                        packet.block_size,
                    )
                    sent += 1
                while reports and reports[-1][0] <= now:
                    sender.receive(reports.pop()[1], now)
            return sent

        return work

    def kernel_receives(self) -> Work:
        """Return the work of receiving packets without processing them."""
        count = 0

        def work() -> int:
            nonlocal count
            while received := self.rows.receive():
                count += received
            return count

        return work

    def library_receives(self) -> Work:
        """Return the work of receiving packets by the standard library."""
        count = 0

        def work() -> int:
            nonlocal count
            while datagrams := self.datagrams.receive():
                count += len(datagrams)
            return count

        return work

    def receives(self, *, events: bool = False) -> Work:
        """Return the work of a receiver in batches.

        Args:
            events: Whether an event is created for each packet.
        """
        receiver = self.stream.receiver(CompiledReceiver)
        assert isinstance(receiver, CompiledReceiver)
        log = ReceivedLog()
        count = 0
        delivered = 0
        arriving = RowReceiver(self.arriving, receiver, ADDRESSES[0])
        times = np.array(self.stream.times)

        def work() -> int:
            nonlocal count, delivered
            while received := arriving.receive():
                receiver.times[:received] = times[count : count + received]
                happened = receiver.receive_many(received)
                if events:
                    delivered += sum(isinstance(event, SourceDelivered) for event in happened)
                else:
                    delivered += len(happened.sources()[0])
                log.add_rows(receiver.log[: receiver.logged])
                receiver.reports_due(receiver.times[received - 1])
                count += received
            assert len(log) == count
            assert receiver.received == count
            assert receiver.counters["delivered"] == delivered
            return count

        return work

    def receives_events(self) -> Work:
        """Return the work of a receiver in batches that creates an event for each packet."""
        return self.receives(events=True)

    def receives_one_by_one(self) -> Work:
        """Return the work of a receiver that receives packet by packet."""
        receiver = self.stream.receiver(StreamReceiver)
        log = ReceivedLog()
        count = 0
        times = self.stream.times

        def work() -> int:
            nonlocal count
            while datagrams := self.datagrams.receive():
                self.datagrams.arrival_times_s(len(datagrams))
                batch_times = times[count : count + len(datagrams)]
                for data, at in zip(datagrams, batch_times, strict=True):
                    sum(isinstance(event, SourceDelivered) for event in receiver.receive(data, at))
                    log.add(at, int.from_bytes(data[4:7], "big"), data[7])
                receiver.reports_due(at)
                count += len(datagrams)
            return count

        return work

    def after_draining(self, prepare: Prepare) -> float:
        """Return the rate of a work that begins with an empty socket."""
        self.kernel_receives()()
        return rate(prepare)

    def after_filling(self, prepare: Prepare) -> float:
        """Return the rate of a work that begins with all packets in the socket."""
        self.kernel_receives()()
        for label, data in self.stream.arrivals:
            self.frames.send(label, data)
        return rate(prepare)


def enter_namespace() -> None:
    """Start this program again in a new network namespace, if one can be created."""
    if os.environ.get(INSIDE):
        return
    command = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]
    if subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        return
    os.environ[INSIDE] = "1"
    os.execvp(command[0], [*command, sys.executable, *sys.argv])


def create_wire() -> None:
    """Create the veth pair."""
    peer = f"peer name bench1 address {MACS[1]} mtu 9000"
    for line in (
        f"link add bench0 address {MACS[0]} mtu 9000 type veth {peer}",
        f"addr add {ADDRESSES[1]}/24 dev bench1",
        "link set bench0 up",
        "link set bench1 up",
        "link set lo up",
    ):
        subprocess.run(["ip", *line.split()], check=True)
    time.sleep(0.2)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for each kind of labels and loss rate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--symbol-bytes", type=int, default=256)
    parser.add_argument("--packets", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--loss", type=float, nargs="+", default=[0.0, 0.02])
    parser.add_argument("--labels", nargs="+", choices=tuple(ORDERS), default=list(ORDERS))
    parser.add_argument("--no-key", action="store_true", help="CRC32 in place of the key's seals")
    options = parser.parse_args(arguments)
    enter_namespace()
    if not os.environ.get(INSIDE):
        print("no network namespace here: nothing can be measured")
        return
    # The ends of a session disable the garbage collector, too.
    gc.disable()
    create_wire()
    print(
        f"symbols of {options.symbol_bytes} bytes, M = {M}, {options.packets} packets; "
        f"thousands of packets a second of processor time, medians of {options.repeats} rounds;\n"
        f"load before: {os.getloadavg()[0]:.1f}"
    )
    key = None if options.no_key else KEY
    for labels in options.labels:
        for loss in options.loss:
            stream = Stream(options.symbol_bytes, options.packets, loss, labels, key)
            print_table(stream, loss, options.repeats)


def print_table(stream: Stream, loss: float, repeats: int) -> None:
    """Measure all rows in turn, and print their medians and their ratios to the kernel's rate.

    Args:
        stream: The stream.
        loss: Its loss rate.
        repeats: Number of rounds.
    """
    wire = Wire(stream)
    rows: list[tuple[str, Callable[[Prepare], float], Prepare]] = [
        ("the kernel's sendmmsg, 1024 ready frames a call", wire.after_draining, wire.kernel_sends),
        ("whole sender, in batches", wire.after_draining, wire.sends),
        ("whole sender, packet by packet", wire.after_draining, wire.sends_one_by_one),
        ("the kernel's recvmmsg, 512 a call, stamped", wire.after_filling, wire.kernel_receives),
        ("the standard library's recvmsg, stamped", wire.after_filling, wire.library_receives),
        ("whole receiver, in batches", wire.after_filling, wire.receives),
        ("whole receiver, in batches, an event a packet", wire.after_filling, wire.receives_events),
        ("whole receiver, packet by packet", wire.after_filling, wire.receives_one_by_one),
    ]
    rounds = []
    for _ in range(repeats):
        rounds.append([measure(prepare) for _, measure, prepare in rows])
    counters = []
    for name in ("late_parity", "reports", "recovered"):
        counters.append(f"{stream.counters.get(name, 0)} {name}")
    seals = "CRC32" if stream.key is None else "keyed"
    print(f"\n{stream.labels} labels, {seals}, {loss:.0%} lost; {', '.join(counters)}")
    for k, (name, _, _) in enumerate(rows):
        kernel_row = KERNEL_RECEIVES if k >= KERNEL_RECEIVES else KERNEL_SENDS
        rate_pps = statistics.median(rates[k] for rates in rounds)
        of_kernel = statistics.median(rates[k] / rates[kernel_row] for rates in rounds)
        print(f"{name:<50}{rate_pps / 1e3:>8.0f}{of_kernel:>8.2f} of the kernel's")


if __name__ == "__main__":
    main()
