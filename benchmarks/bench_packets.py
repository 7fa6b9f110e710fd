"""Packets a second through the stream's ends, one core: state machines alone, and with real sockets over a veth pair.

The socket rows run in a network namespace of their own (as root, or with user namespaces); without one they are left
out.
"""

from __future__ import annotations

import argparse
import gc
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from fec.adapters.raw_sockets import DatagramReceiver, FrameSender
from fec.adapters.scapy_layer import FrameTemplate
from fec.code.reed_solomon import ReedSolomonCode
from fec.protocol.receiver import StreamReceiver
from fec.protocol.receiver_types import ReceiverParameters
from fec.protocol.sender import OutgoingPacket, SenderParameters, StreamSender
from fec.protocol.wire import STREAM_UDP_PORT
from fec.redundancy.block_size_control import fixed_block_size
from fec.redundancy.labels import StratifiedLabels

M, N = 20, 22
INSIDE = "TESTBED_BENCH_NAMESPACE"
MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
ADDRESSES = ("10.77.0.1", "10.77.0.2")
SO_RCVBUFFORCE = 33


def build_sender(symbol_bytes: int) -> StreamSender:
    payloads = [bytes([i]) * (symbol_bytes - 2) for i in range(251)]
    parameters = SenderParameters(source_packets=M, symbol_bytes=symbol_bytes, rate_pps=1e6)
    return StreamSender(
        parameters, ReedSolomonCode(M), StratifiedLabels(), fixed_block_size(N), lambda i: payloads[i % 251]
    )


def batches(symbol_bytes: int, packets: int) -> Iterator[list[OutgoingPacket]]:
    """A stream of 1.1 million packets/s in virtual time, 64 packets at a time."""
    sender, now, made = build_sender(symbol_bytes), 0.0, 0
    while made < packets:
        batch = sender.packets_due(now, limit=64)
        made += len(batch)
        now += 50e-6
        if batch:
            yield batch


Rates = tuple[float, float]
"""Packets a second by the clock, and of this process's time on a processor (another load on the machine hardly
shows)."""


def best(measure: Callable[[], Rates], repeats: int) -> Rates:
    by_clock, by_processor = zip(*(measure() for _ in range(repeats)), strict=True)
    return max(by_clock), max(by_processor)


def rate(work: Callable[[], int]) -> Rates:
    """Of work that says how many packets it handled."""
    gc.collect()
    clock, processor = time.perf_counter(), time.process_time()
    count = work()
    return count / (time.perf_counter() - clock), count / (time.process_time() - processor)


def state_machines(symbol_bytes: int, packets: int, repeats: int) -> Iterator[tuple[str, Rates]]:
    def send() -> Rates:
        return rate(lambda: sum(map(len, batches(symbol_bytes, packets))))

    yield "sender: source, code, label, header, CRC (no socket)", best(send, repeats)
    made = list(batches(symbol_bytes, packets))
    for share, text in ((0.0, "no loss"), (0.05, "5 % lost, decoded")):
        kept = [[p.data for p in batch if p.label >= share * 65536] for batch in made]

        def receive(kept: list[list[bytes]] = kept) -> Rates:
            parameters = ReceiverParameters(source_packets=M, symbol_bytes=symbol_bytes)
            receiver = StreamReceiver(parameters, ReedSolomonCode(M))

            def take() -> int:
                for k, batch in enumerate(kept):
                    for data in batch:
                        receiver.receive(data, k * 50e-6)
                    receiver.reports_due(k * 50e-6)
                return sum(map(len, kept))

            return rate(take)

        yield f"receiver: CRC, blocks, events, reports; {text} (no socket)", best(receive, repeats)


class Wire:
    """Frames leave one end of a veth pair; a UDP socket waits at the other. Sending includes the way into that socket,
    which the kernel walks within the sender's call; the socket is emptied between the rounds."""

    def __init__(self, symbol_bytes: int, packets: int) -> None:
        template = FrameTemplate(src_mac=MACS[0], dst_mac=MACS[1], src_ip=ADDRESSES[0], dst_ip=ADDRESSES[1])
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        raw.bind(("bench0", 0))
        self.stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.stream.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20)
        self.stream.bind((ADDRESSES[1], STREAM_UDP_PORT))
        self.frames, self.datagrams = FrameSender(raw, template), DatagramReceiver(self.stream, most=128)
        self.symbol_bytes, self.packets = symbol_bytes, packets
        self.made = list(batches(symbol_bytes, packets))

    def one_by_one(self) -> int:
        for batch in self.made:
            for packet in batch:
                self.frames.send(packet.label, packet.data)
        return self.packets

    def whole_sender(self) -> int:
        for batch in batches(self.symbol_bytes, self.packets):
            for packet in batch:
                self.frames.send(packet.label, packet.data)
        return self.packets

    def drain_one_by_one(self) -> int:
        buffer, count = bytearray(2048), 0
        while True:
            try:
                self.stream.recv_into(buffer, 0, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return count
            count += 1

    def drain_many(self) -> int:
        count = 0
        while got := self.datagrams.receive():
            count += len(got)
        return count

    def drain_into_receiver(self) -> int:
        parameters = ReceiverParameters(source_packets=M, symbol_bytes=self.symbol_bytes, playback_s=1000.0)
        receiver, count = StreamReceiver(parameters, ReedSolomonCode(M)), 0
        while got := self.datagrams.receive():
            for data in got:
                receiver.receive(data, 0.0)
            count += len(got)
        return count

    def sending(self, work: Callable[[], int]) -> Rates:
        self.drain_many()
        return rate(work)

    def receiving(self, drain: Callable[[], int]) -> Rates:
        self.drain_many()
        self.one_by_one()
        return rate(drain)


def sockets(symbol_bytes: int, packets: int, repeats: int) -> Iterator[tuple[str, Rates]]:
    wire = Wire(symbol_bytes, packets)
    yield "send ready packets: label patched, one a call", best(lambda: wire.sending(wire.one_by_one), repeats)
    yield "send: the whole sender", best(lambda: wire.sending(wire.whole_sender), repeats)
    yield "receive: recv_into, one a call", best(lambda: wire.receiving(wire.drain_one_by_one), repeats)
    yield "receive: recvmsg, a bytes object each", best(lambda: wire.receiving(wire.drain_many), repeats)
    yield "receive: recvmsg and the whole receiver", best(lambda: wire.receiving(wire.drain_into_receiver), repeats)


def enter_namespace() -> None:
    """Go on in a network namespace of our own, where there can be one."""
    command = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]
    if os.environ.get(INSIDE) or subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        return
    os.environ[INSIDE] = "1"
    os.execvp(command[0], [*command, sys.executable, *sys.argv])


def lay_wire() -> None:
    for line in (
        f"link add bench0 address {MACS[0]} type veth peer name bench1 address {MACS[1]}",
        f"addr add {ADDRESSES[1]}/24 dev bench1",
        "link set bench0 up",
        "link set bench1 up",
        "link set lo up",
    ):
        subprocess.run(["ip", *line.split()], check=True)
    time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--symbol-bytes", type=int, default=256)
    parser.add_argument("--packets", type=int, default=40_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    enter_namespace()
    gc.disable()  # as the ends of a session do
    print(
        f"symbols of {options.symbol_bytes} bytes, M = {M}, N = {N}; thousands of packets a second, best of "
        f"{options.repeats};"
    )
    print(f"one process of an otherwise idle machine is meant, the load before was {os.getloadavg()[0]:.1f}")
    print(f"{'':<66}{'by clock':>10}{'of processor time':>20}")
    size = (options.symbol_bytes, options.packets, options.repeats)
    tell(state_machines(*size))
    if not os.environ.get(INSIDE):
        print("no network namespace here: rows with sockets left out")
        return
    lay_wire()
    tell(sockets(*size))


def tell(rows: Iterator[tuple[str, Rates]]) -> None:
    for name, (by_clock, by_processor) in rows:
        print(f"{name:<66}{by_clock / 1e3:>10.0f}{by_processor / 1e3:>20.0f}", flush=True)


if __name__ == "__main__":
    main()
