"""Packets a second through the stream's ends, one core, beside what the kernel's own sendmmsg and recvmmsg take.

Both ends are whole: parity and late parity, block sizes that change, numbers of paths, loss reports and the logs of an
emulated run, and as there all packets and reports are sealed with a key, unless ``--no-key`` is given. The medians are
of rounds in which all rows take turns. The rows with sockets run over a veth pair in a
network namespace of their own (as root, or with user namespaces); without one there are none.
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

M, RATE_PPS, TICK_S = 20, 1e6, 800e-6
REPORT_PACKETS, PLAYBACK_S = 2_000, 0.04
INSIDE = "TESTBED_BENCH_NAMESPACE"
MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
ADDRESSES = ("10.77.0.1", "10.77.0.2")
SO_RCVBUFFORCE = 33
PATHS = bytes([1]) * 20_000 + bytes([2]) * 20_000 + bytes([3]) * (LABELS - 40_000)
KEY = bytes(range(32))
ORDERS: dict[str, Callable[[], LabelOrder]] = {
    "stratified": StratifiedLabels,
    "random": lambda: RandomLabels(1),
}


class Changing(FixedBlockSize):
    """N goes round three sizes, a millisecond each."""

    def block_size_at(self, begins_s: float) -> int:
        return self.size + int(begins_s * 1000) % 3


class Stream:
    """A stream of a million source packets a second in virtual time: what its sender is told, and when, and what its
    receiver gets. Every end that runs it does the same."""

    def __init__(
        self, symbol_bytes: int, packets: int, loss: float, labels: str, key: bytes | None
    ) -> None:
        self.symbol_bytes = symbol_bytes
        self.packets = packets
        self.labels = labels
        self.key = key
        self.payloads = [bytes([i]) * (symbol_bytes - 2) for i in range(251)]
        self.told = ReceiverParameters(
            source_packets=M,
            symbol_bytes=symbol_bytes,
            report_packets=REPORT_PACKETS,
            report_interval_s=10.0,
            key=key,
        )
        self.reports: list[tuple[float, bytes]] = []
        self.arrivals: list[tuple[int, bytes]] = []
        self.times: list[float] = []
        sender, receiver, chance = (
            self.sender(StreamSender),
            self.receiver(StreamReceiver),
            np.random.default_rng(1),
        )
        now, made = 0.0, 0
        while made < packets:
            now += TICK_S
            batch = sender.packets_due(now, MOST_SENT)
            made += len(batch)
            for packet in batch:
                if chance.random() >= loss:
                    self.arrivals.append((packet.label, packet.data))
                    self.times.append(now)
                    receiver.receive(packet.data, now)
                for report in receiver.reports_due(now):
                    self.reports.append((now, report))
                    sender.receive(report, now)
        self.ended_s, self.counters = now, {**sender.counters, **receiver.counters}

    def sender(self, kind: type[StreamSender], **more: bytes) -> StreamSender:
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
        source = lambda i: payloads[i % 251]  # noqa: E731 - as cheap as a payload can be
        return kind(
            parameters, ReedSolomonCode(M), ORDERS[self.labels](), control, source, PATHS, **more
        )  # type: ignore[call-arg]

    def receiver(self, kind: type[StreamReceiver]) -> StreamReceiver:
        return kind(self.told, ReedSolomonCode(M))


Work = Callable[[], int]
"""Says how many packets it handled."""
Prepare = Callable[[], Work]


def rate(prepare: Prepare) -> float:
    """Packets a second of this process's time on a processor: another load on the machine shows less than by the
    clock."""
    gc.collect()
    work = prepare()
    began = time.process_time()
    count = work()
    return count / (time.process_time() - began)


class Wire:
    """Frames leave one end of a veth pair; a UDP socket waits at the other. Sending includes the way into that socket,
    which the kernel walks within the sender's call; the socket is emptied between the rounds."""

    def __init__(self, stream: Stream) -> None:
        template = FrameTemplate(
            src_mac=MACS[0], dst_mac=MACS[1], src_ip=ADDRESSES[0], dst_ip=ADDRESSES[1]
        )
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        raw.bind(("bench0", 0))
        self.arriving = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.arriving.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20)
        self.arriving.bind((ADDRESSES[1], STREAM_UDP_PORT))
        self.stream, self.frames = stream, FrameSender(raw, template)
        self.datagrams = DatagramReceiver(
            self.arriving, limit=MOST, timestamps=True, peer=ADDRESSES[0]
        )
        frame_bytes = template.header_bytes + HEADER_BYTES + stream.symbol_bytes
        self.ready = Messages(np.zeros((MOST_SENT, frame_bytes), np.uint8))
        self.ready.rows[:, : template.header_bytes] = list(
            template.headers_for(HEADER_BYTES + stream.symbol_bytes)
        )
        self.rows = RowReceiver(
            self.arriving, BatchReceiver(stream.told, ReedSolomonCode(M)), ADDRESSES[0]
        )

    def kernel_sends(self) -> Work:
        labels, sent = np.array([label for label, _ in self.stream.arrivals[:MOST_SENT]]), 0
        place = FrameTemplate.label_offset
        self.ready.rows[:, place], self.ready.rows[:, place + 1] = labels >> 8, labels & 255

        def work() -> int:
            nonlocal sent
            while sent < self.stream.packets:
                self.frames.send_rows(self.ready, labels)
                sent += MOST_SENT
            return sent

        return work

    def sends(self) -> Work:
        stream, log, now, made = self.stream, SentLog(), 0.0, 0
        headers = self.frames.template.headers_for(HEADER_BYTES + stream.symbol_bytes)
        sender = stream.sender(BatchSender, headers=headers)
        reports = list(reversed(stream.reports))
        assert isinstance(sender, BatchSender)
        frames = Messages(sender.rows)

        def work() -> int:
            nonlocal now, made
            while made < stream.packets:
                now += TICK_S
                if count := sender.fill(now):
                    self.frames.send_rows(frames, sender.log[:count, 3])
                    log.add_batch(now, now, sender.log[:count])
                    made += count
                while reports and reports[-1][0] <= now:
                    sender.receive(reports.pop()[1], now)
            assert sender.counters["late_parity"] == stream.counters["late_parity"], (
                "another stream than the plain one"
            )
            return made

        return work

    def sends_one_by_one(self) -> Work:
        stream, log, now, made = self.stream, SentLog(), 0.0, 0
        sender = stream.sender(StreamSender)
        reports = list(reversed(stream.reports))

        def work() -> int:
            nonlocal now, made
            while made < stream.packets:
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
                    made += 1
                while reports and reports[-1][0] <= now:
                    sender.receive(reports.pop()[1], now)
            return made

        return work

    def kernel_receives(self) -> Work:
        count = 0

        def work() -> int:
            nonlocal count
            while got := self.rows.receive():
                count += got
            return count

        return work

    def library_receives(self) -> Work:
        count = 0

        def work() -> int:
            nonlocal count
            while got := self.datagrams.receive():
                count += len(got)
            return count

        return work

    def receives(self, *, events: bool = False) -> Work:
        receiver, log, count, delivered = (
            self.stream.receiver(CompiledReceiver),
            ReceivedLog(),
            0,
            0,
        )
        assert isinstance(receiver, CompiledReceiver)
        arriving, times = (
            RowReceiver(self.arriving, receiver, ADDRESSES[0]),
            np.array(self.stream.times),
        )

        def work() -> int:
            nonlocal count, delivered
            while got := arriving.receive():
                receiver.times[:got] = times[count : count + got]
                happened = receiver.receive_many(got)
                if events:
                    delivered += sum(isinstance(event, SourceDelivered) for event in happened)
                else:
                    delivered += len(happened.sources()[0])
                log.add_rows(receiver.log[: receiver.logged])
                receiver.reports_due(receiver.times[got - 1])
                count += got
            assert (
                len(log) == count == receiver.received
                and delivered == receiver.counters["delivered"]
            )
            return count

        return work

    def receives_events(self) -> Work:
        return self.receives(events=True)

    def receives_one_by_one(self) -> Work:
        receiver, log, count, times = (
            self.stream.receiver(StreamReceiver),
            ReceivedLog(),
            0,
            self.stream.times,
        )

        def work() -> int:
            nonlocal count
            while got := self.datagrams.receive():
                self.datagrams.arrival_times_s(len(got))
                for data, at in zip(got, times[count : count + len(got)], strict=True):
                    sum(isinstance(event, SourceDelivered) for event in receiver.receive(data, at))
                    log.add(at, int.from_bytes(data[4:7], "big"), data[7])
                receiver.reports_due(at)
                count += len(got)
            return count

        return work

    def after_draining(self, prepare: Prepare) -> float:
        self.kernel_receives()()
        return rate(prepare)

    def after_filling(self, prepare: Prepare) -> float:
        self.kernel_receives()()
        for label, data in self.stream.arrivals:
            self.frames.send(label, data)
        return rate(prepare)


def enter_namespace() -> None:
    """Go on in a network namespace of our own, where there can be one."""
    command = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]
    if (
        os.environ.get(INSIDE)
        or subprocess.run([*command, "true"], check=False, capture_output=True).returncode
    ):
        return
    os.environ[INSIDE] = "1"
    os.execvp(command[0], [*command, sys.executable, *sys.argv])


def lay_wire() -> None:
    for line in (
        f"link add bench0 address {MACS[0]} mtu 9000 type veth peer name bench1 address {MACS[1]} mtu 9000",
        f"addr add {ADDRESSES[1]}/24 dev bench1",
        "link set bench0 up",
        "link set bench1 up",
        "link set lo up",
    ):
        subprocess.run(["ip", *line.split()], check=True)
    time.sleep(0.2)


def main(arguments: Sequence[str] | None = None) -> None:
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
    gc.disable()  # as the ends of a session do
    lay_wire()
    print(
        f"symbols of {options.symbol_bytes} bytes, M = {M}, {options.packets} packets; thousands of packets a second "
        f"of processor time, medians of {options.repeats} rounds;\nload before: {os.getloadavg()[0]:.1f}"
    )
    key = None if options.no_key else KEY
    for labels in options.labels:
        for loss in options.loss:
            stream = Stream(options.symbol_bytes, options.packets, loss, labels, key)
            tell(stream, loss, options.repeats)


def tell(stream: Stream, loss: float, repeats: int) -> None:
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
    rounds = [[measure(prepare) for _, measure, prepare in rows] for _ in range(repeats)]
    told = {name: stream.counters.get(name, 0) for name in ("late_parity", "reports", "recovered")}
    seals = "CRC32" if stream.key is None else "keyed"
    print(
        f"\n{stream.labels} labels, {seals}, {loss:.0%} lost; "
        + ", ".join(f"{count} {name}" for name, count in told.items())
    )
    for k, (name, _, _) in enumerate(rows):
        of_kernel = statistics.median(one[k] / one[3 * (k >= 3)] for one in rounds)
        print(
            f"{name:<50}{statistics.median(one[k] for one in rounds) / 1e3:>8.0f}{of_kernel:>8.2f} of the kernel's"
        )


if __name__ == "__main__":
    main()
