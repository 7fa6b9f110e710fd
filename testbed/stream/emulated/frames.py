"""Sends labelled frames of a host out of the cable at which the path of each label begins."""

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

_SEND_BUFFER_BYTES = 4 << 20


class LabelledFrames:
    """Sends frames through several cables of a host, each label through its own one.

    The first IP node of the label's path is the frame's destination on the link.

    Args:
        senders: Pairs (first label, sender) in ascending order. The labels of a sender end before
            the first label of the next one.

    Attributes:
        template: The frames of the first cable.
    """

    def __init__(self, senders: Sequence[tuple[int, FrameSender]]) -> None:
        self._starts = [start for start, _ in senders]
        self._senders = [sender for _, sender in senders]
        self.template = self._senders[0].template

    def send(self, label: int, payload: bytes) -> None:
        """Send one frame (see ``FrameSender.send``)."""
        sender = self._senders[bisect.bisect_right(self._starts, label) - 1]
        sender.send(label, payload)

    def send_rows(self, frames: Messages, labels: NDArray[np.float64]) -> None:
        """Send one frame for each label, from the first rows on (see ``FrameSender.send_rows``).

        The header of each frame is replaced by that of its cable.
        """
        for row, label in zip(frames.rows, labels.astype(int).tolist(), strict=False):
            self.send(label, row[FrameTemplate.header_bytes :].tobytes())

    @property
    def refused(self) -> int:
        """Number of frames that the interfaces did not accept."""
        return sum(sender.refused for sender in set(self._senders))


Frames = FrameSender | LabelledFrames


@contextmanager
def frames_of(
    net: EmulatedNetwork,
    host: WiredHost,
    peer: WiredHost,
    split: LabelSplit | None = None,
    udp_port: int = STREAM_UDP_PORT,
) -> Iterator[Frames]:
    """Open the sockets through which a host sends frames to another host.

    Args:
        net: The network.
        host: The host that sends.
        peer: The host that receives.
        split: Assigns labels to paths; without it, all frames leave through the first cable.
        udp_port: The UDP port of the peer.
    """
    mac_by_host = {node.name: node.mac for node in net.wiring.hosts}
    with ExitStack() as stack:
        sender_by_step: dict[Step, FrameSender] = {}
        senders = []
        for start, step in sorted(_first_steps(net, host, peer, split, udp_port).items()):
            if step not in sender_by_step:
                template = FrameTemplate(
                    src_mac=host.mac,
                    dst_mac=mac_by_host[step.node],
                    src_ip=host.ip,
                    dst_ip=peer.ip,
                    udp_port=udp_port,
                )
                raw_socket = stack.enter_context(_raw_socket(net, host, step.port))
                sender_by_step[step] = FrameSender(raw_socket, template)
            senders.append((start, sender_by_step[step]))
        if len(senders) == 1:
            yield senders[0][1]
        else:
            yield LabelledFrames(senders)


def _first_steps(
    net: EmulatedNetwork,
    host: WiredHost,
    peer: WiredHost,
    split: LabelSplit | None,
    udp_port: int,
) -> dict[int, Step]:
    """Return the step of the host's frames from each of the labels on, up to the next one."""
    routes = []
    if split is not None:
        for route in stream_routes(net.wiring, split, udp_port=udp_port):
            if route.host == host.name:
                routes.append(route)
    steps = {}
    for route in routes:
        if route.labels:
            steps[route.labels[0]] = Step(route.port, route.node)
    if steps:
        return steps
    default = step_of(routes, host.name, 0)
    return {0: default or Step(net.wiring.first_port(host.name), peer.name)}


def _raw_socket(net: EmulatedNetwork, host: WiredHost, port: int) -> socket.socket:
    """Open a socket that sends complete frames out of the interface of a host's port."""
    sock = net.open_socket(host.name, socket.AF_PACKET, socket.SOCK_RAW, 0)
    sock.bind((net.interface_of(host.name, port), 0))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
    return sock
