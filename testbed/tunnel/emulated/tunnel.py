"""A tunnel over a network that is up: rules of its own UDP port for both directions, a process at each end."""

import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

from fec.protocol.wire import STREAM_UDP_PORT
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.errors import InputError, InvalidRunError
from testbed.openflow.rules import OTHER_PRIORITY, Rules, split_rules
from testbed.stream.emulated.endpoints import KEY_BYTES, EndpointProcess
from testbed.tunnel.emulated.tun_device import open_device
from testbed.tunnel.emulated.tunnel_end import GAUGES, TunnelEndSpec, tunnel_end
from testbed.tunnel.plan import EndLog, TunnelPlan

MOST_TUNNELS = 255
"""Of one network, one after another or at once: each has a UDP port, a device name and addresses of its own."""
_LEAD_S = 0.1
Installed = Callable[[Rules], AbstractContextManager[None]]
"""Has the rules in force meanwhile."""


@dataclass(frozen=True, kw_only=True)
class RunningTunnel:
    """``ends``, ``addresses``: by node, ``addresses`` as a program there reaches the other end's programs at theirs."""

    ends: Mapping[str, EndpointProcess]
    addresses: Mapping[str, str]
    device: str
    mtu: int
    start_s: float

    def counters(self) -> dict[str, dict[str, int]]:
        """Node -> what its end has counted so far. InvalidRunError where an end has died."""
        for end in self.ends.values():
            if not end.alive:
                raise InvalidRunError(f"the {end.role} died: {end.error()}")
        return {
            node: dict(zip(GAUGES[1:], (int(number) for number in end.gauge[1:]), strict=True))
            for node, end in self.ends.items()
        }

    def results(self, zero_s: float | None = None) -> dict[str, EndLog]:
        """End the tunnel; node -> counters and logs of packets, whose times are since ``zero_s`` of the monotonic clock
        (None: since the tunnel began)."""
        for end in self.ends.values():
            end.gauge[0] = 1
        found = {node: end.result() for node, end in self.ends.items()}
        for log in (log for end in found.values() for log in (end["offered"], end["delivered"])):
            for column in ("at_s", "came_s"):
                log[column] -= 0.0 if zero_s is None else zero_s - self.start_s
        return found


def tunnel_rules(net: EmulatedNetwork, plan: TunnelPlan, udp_port: int) -> Rules:
    """Of the tunnel's labels alone: everything else of the pair goes on as it did."""
    rules, routes = split_rules(
        net.wiring, plan.there.forward, plan.back.forward, udp_port=udp_port
    )
    return tuple(rule for rule in rules if rule.priority != OTHER_PRIORITY), routes


@contextmanager
def running_tunnel(
    net: EmulatedNetwork, plan: TunnelPlan, number: int, installed: Installed
) -> Iterator[RunningTunnel]:
    """``number``: 1 to 255, another one for each tunnel of a network. InputError for one too many."""
    if number > MOST_TUNNELS:
        raise InputError(
            f"tunnel {number} of one network: it has addresses for {MOST_TUNNELS}; begin another session"
        )
    os.close(open_device())
    nodes = (plan.there.source, plan.there.sink)
    udp_port, device = STREAM_UDP_PORT + number, f"tun{number}"
    addresses = {node: f"172.31.{number}.{last}" for last, node in enumerate(nodes, start=1)}
    key = secrets.token_bytes(KEY_BYTES)
    with ExitStack() as stack:
        stack.enter_context(installed(tunnel_rules(net, plan, udp_port)))
        ends: dict[str, EndpointProcess] = {}
        for one in (plan, plan.reversed()):
            own, other = one.there.source, one.there.sink
            spec = TunnelEndSpec(
                plan=one,
                device=device,
                address=addresses[own],
                peer=addresses[other],
                udp_port=udp_port,
                key=key,
            )
            hosts = net.wiring.host_at(own), net.wiring.host_at(other)
            ends[own] = stack.enter_context(tunnel_end(net, *hosts, spec))
        for end in ends.values():
            end.wait_until_ready()
        start_s = time.monotonic() + _LEAD_S
        for end in ends.values():
            end.begin(start_s)
        yield RunningTunnel(
            ends=ends, addresses=addresses, device=device, mtu=plan.mtu, start_s=start_s
        )
