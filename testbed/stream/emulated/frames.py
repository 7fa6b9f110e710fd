"""Labelled frames of a host: each label's out of the cable where its way begins, to the IP node that its way leads to
first."""

import bisect
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np
from numpy.typing import NDArray

from fec.adapters.raw_sockets import FrameSender, Messages
from fec.adapters.scapy_layer import FrameTemplate
from fec.protocol.wire import STREAM_UDP_PORT
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.model.label_split import LabelSplit
from testbed.model.wiring import WiredHost
from testbed.openflow.rules import step_of, stream_routes
from testbed.openflow.shortest_paths import Step


class LabelledFrames:
    """Frames out of the cable where the way of their label begins, to the IP node that takes them there.

    ``senders``: (first label, sender) in ascending order; the next one's first label ends a range. ``template``: of the
    first cable's frames.
    """

    def __init__(self, senders: Sequence[tuple[int, FrameSender]]) -> None:
        self._starts, self._senders = (
            [start for start, _ in senders],
            [sender for _, sender in senders],
        )
        self.template = self._senders[0].template

    def send(self, label: int, payload: bytes) -> None:
        """See ``FrameSender.send``."""
        self._senders[bisect.bisect_right(self._starts, label) - 1].send(label, payload)

    def send_rows(self, frames: Messages, labels: NDArray[np.float64]) -> None:
        """See ``FrameSender.send_rows``; each datagram in the frame of its own cable."""
        for row, label in zip(frames.rows, labels.astype(int).tolist(), strict=False):
            self.send(label, row[FrameTemplate.header_bytes :].tobytes())

    @property
    def refused(self) -> int:
        """Frames that their interfaces did not take."""
        return sum(sender.refused for sender in set(self._senders))


Frames = FrameSender | LabelledFrames


@contextmanager
def frames_of(
    net: EmulatedNetwork,
    own: WiredHost,
    other: WiredHost,
    split: LabelSplit | None = None,
    udp_port: int = STREAM_UDP_PORT,
) -> Iterator[Frames]:
    """What sends one host's frames to that port of another over the split, each label's by the right cable; None: by
    the first."""
    known = {host.name: host for host in net.wiring.hosts}
    routes = () if split is None else stream_routes(net.wiring, split, udp_port=udp_port)
    here = [route for route in routes if route.host == own.name]
    only = step_of(here, own.name, 0) or Step(net.wiring.first_port(own.name), other.name)
    starts = {r.labels[0]: Step(r.port, r.node) for r in here if r.labels} or {0: only}
    with ExitStack() as stack:
        senders: dict[Step, FrameSender] = {}
        for step in dict.fromkeys(starts.values()):
            raw = stack.enter_context(_raw_socket(net, own, step.port))
            mac = known[step.node].mac
            template = FrameTemplate(
                src_mac=own.mac, dst_mac=mac, src_ip=own.ip, dst_ip=other.ip, udp_port=udp_port
            )
            senders[step] = FrameSender(raw, template)
        listed = [(start, senders[step]) for start, step in sorted(starts.items())]
        yield listed[0][1] if len(listed) == 1 else LabelledFrames(listed)


def _raw_socket(net: EmulatedNetwork, host: WiredHost, port: int) -> socket.socket:
    """A socket of the host that sends whole frames out of the interface of that port."""
    sock = net.open_socket(host.name, socket.AF_PACKET, socket.SOCK_RAW, 0)
    sock.bind((net.interface_of(host.name, port), 0))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    return sock
