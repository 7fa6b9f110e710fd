"""``Session.tunnel``: a tunnel for users' own programs, seen from the ordinary process."""

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
    """``start_s``: time zero on the monotonic clock; ``counters``: node -> totals of its end; ``offered`` and
    ``delivered``: node -> a row a packet, as numpy records (``testbed.tunnel.emulated.tunnel_end.PACKETS``)."""

    start_s: float
    counters: Mapping[str, Mapping[str, float]]
    offered: Mapping[str, NDArray[np.void]]
    delivered: Mapping[str, NDArray[np.void]]


class Tunnel(AbstractContextManager["Tunnel"]):
    """Up from when it is made until ``close`` or the end of its with block. ``addresses``: node -> IPv4 address of its
    end, for programs at the other; ``device``: its name in both hosts; ``mtu`` in bytes."""

    def __init__(self, process: SandboxProcess, plan: TunnelPlan) -> None:
        self.plan = plan
        process.check()
        self._sock = connect(process.name)
        self._lock = threading.Lock()
        self._result: TunnelResult | None = None
        self._failure: InvalidRunError | SessionClosedError | None = None
        try:
            send(self._sock, {"do": "tunnel"}, pickle.dumps(plan))
            said = receive_reply(self._sock).header
        except BaseException:
            self._sock.close()
            raise
        self.addresses: Mapping[str, str] = said["addresses"]
        self.device, self.mtu = str(said["device"]), int(said["mtu"])

    def address(self, node: str) -> str:
        """IPv4 address of the tunnel's end at the node, for programs at the other; InputError where it has none."""
        if node not in self.addresses:
            raise InputError(
                f"no end of the tunnel is at {node!r}; {nearest(str(node), self.addresses)}"
            )
        return self.addresses[node]

    def counters(self) -> Mapping[str, Mapping[str, float]]:
        """Node -> what its end has counted so far: packets offered and delivered, recovered by the code, on the wire,
        N. InvalidRunError where an end has died."""
        with self._lock:
            if self._result is not None:
                return self._result.counters
            return dict(self._ask("counters").header)

    def close(self) -> TunnelResult:
        """Take the tunnel down; what its ends counted and logged. May be called twice."""
        with self._lock:
            if self._result is None:
                with self._sock:
                    start_s, ends = pickle.loads(self._ask("stop").body)
                names = ("counters", "offered", "delivered")
                parts = {name: {node: end[name] for node, end in ends.items()} for name in names}
                self._result = TunnelResult(start_s=start_s, **parts)
            return self._result

    def _ask(self, request: str) -> Frame:
        """What went wrong once stays wrong, and is told again."""
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
            if kind is None:
                raise
