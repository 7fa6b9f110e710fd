"""``Session.tunnel``: a tunnel for users' programs, controlled from the ordinary process."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from testbed.api.emulated.sandbox_client import SandboxProcess
from testbed.emulation.attach.client import receive_reply
from testbed.emulation.attach.protocol import Frame, send
from testbed.emulation.sandbox.control_socket import connect
from testbed.errors import InputError, InvalidRunError, SessionClosedError
from topologies.errors import nearest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from testbed.tunnel.plan import TunnelPlan


@dataclass(frozen=True, kw_only=True)
class TunnelResult:
    """The counters and packet logs of a tunnel that was closed.

    The logs are numpy records, one per packet, with the fields of
    ``testbed.tunnel.emulated.tunnel_end.PACKETS``.

    Attributes:
        start_s: Time zero of the logs, in seconds of the monotonic clock.
        counters: For each of the two nodes, the totals that its end counted.
        offered: For each node, the packets that programs there sent into the tunnel.
        delivered: For each node, the packets that the tunnel delivered there.
    """

    start_s: float
    counters: Mapping[str, Mapping[str, float]]
    offered: Mapping[str, NDArray[np.void]]
    delivered: Mapping[str, NDArray[np.void]]


class Tunnel(AbstractContextManager["Tunnel"]):
    """A tunnel between two hosts, from its creation until ``close`` or the end of the with block.

    Attributes:
        plan: The plan of the tunnel.
        addresses: For each of the two nodes, the IPv4 address by which programs at the other node
            reach it.
        device: Name of the tunnel's network interface, the same in both hosts.
        mtu: Largest packet in bytes that the tunnel carries.
    """

    def __init__(self, process: SandboxProcess, plan: TunnelPlan) -> None:
        self.plan = plan
        process.check()
        self._sock = connect(process.name)
        self._lock = threading.Lock()
        self._result: TunnelResult | None = None
        self._failure: InvalidRunError | SessionClosedError | None = None
        try:
            send(self._sock, {"do": "tunnel"}, pickle.dumps(plan))
            reply = receive_reply(self._sock).header
        except BaseException:
            self._sock.close()
            raise
        self.addresses: Mapping[str, str] = reply["addresses"]
        self.device = str(reply["device"])
        self.mtu = int(reply["mtu"])

    def address(self, node: str) -> str:
        """Return the IPv4 address by which programs at the other node reach this one.

        Raises:
            InputError: The tunnel does not end at the node.
        """
        if node not in self.addresses:
            raise InputError(
                f"no end of the tunnel is at {node!r}; {nearest(str(node), self.addresses)}"
            )
        return self.addresses[node]

    def counters(self) -> Mapping[str, Mapping[str, float]]:
        """Return the present counters of both ends, by node.

        Each end counts the packets offered, delivered, recovered by the code and sent on the wire,
        and reports its block size N.

        Raises:
            InvalidRunError: The process of an end has died.
        """
        with self._lock:
            if self._result is not None:
                return self._result.counters
            return dict(self._ask("counters").header)

    def close(self) -> TunnelResult:
        """Take the tunnel down and return its counters and logs; a second call returns them again.

        Raises:
            InvalidRunError: The process of an end has died.
            SessionClosedError: The session has ended.
        """
        with self._lock:
            if self._result is None:
                with self._sock:
                    start_s, ends = pickle.loads(self._ask("stop").body)
                self._result = TunnelResult(
                    start_s=start_s,
                    counters={node: end["counters"] for node, end in ends.items()},
                    offered={node: end["offered"] for node, end in ends.items()},
                    delivered={node: end["delivered"] for node, end in ends.items()},
                )
            return self._result

    def _ask(self, request: str) -> Frame:
        """Send a request and return the reply; after a failure, raise that failure again."""
        if self._failure is not None:
            raise self._failure
        try:
            send(self._sock, {"do": request})
            return receive_reply(self._sock)
        except (InvalidRunError, SessionClosedError) as error:
            self._failure = error
            raise

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self.close()
        except (InvalidRunError, SessionClosedError, OSError):
            # An exception of the with block is the cause and must not be hidden by this one.
            if kind is None:
                raise
