"""A tunnel in a running network: the rules for its UDP port, and a process at each end."""

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

# Limit on the tunnels of one network, one after another or at once: each has its own UDP port,
# device name and addresses.
MAX_TUNNELS = 255
# Time between the command to start and the start of both ends.
_LEAD_S = 0.1
# A function that installs rules for the duration of a context.
Installed = Callable[[Rules], AbstractContextManager[None]]


@dataclass(frozen=True, kw_only=True)
class RunningTunnel:
    """A tunnel whose ends are running.

    Attributes:
        ends: The process at each end, by node.
        addresses: The tunnel's address at each end, by node. Programs at one end reach those at the
            other end under its address.
        device: The name of the TUN device, which is the same at both ends.
        mtu: The MTU of the devices in bytes.
        start_s: Time zero of the logs, on the monotonic clock.
    """

    ends: Mapping[str, EndpointProcess]
    addresses: Mapping[str, str]
    device: str
    mtu: int
    start_s: float

    def counters(self) -> dict[str, dict[str, int]]:
        """Return the counters of each end so far, by node.

        Raises:
            InvalidRunError: The process of an end has died.
        """
        for end in self.ends.values():
            if not end.alive:
                raise InvalidRunError(f"the {end.role} died: {end.error()}")
        counters = {}
        for node, end in self.ends.items():
            counts = [int(count) for count in end.gauge[1:]]
            counters[node] = dict(zip(GAUGES[1:], counts, strict=True))
        return counters

    def results(self, zero_s: float | None = None) -> dict[str, EndLog]:
        """Stop the tunnel, and return the counters and packet logs of each end, by node.

        Args:
            zero_s: Time zero of the returned logs on the monotonic clock; None for the start of the
                tunnel.
        """
        for end in self.ends.values():
            end.gauge[0] = 1
        results = {node: end.result() for node, end in self.ends.items()}
        if zero_s is None:
            return results
        for end_log in results.values():
            for packets in (end_log["offered"], end_log["delivered"]):
                packets["at_s"] -= zero_s - self.start_s
                packets["came_s"] -= zero_s - self.start_s
        return results


def tunnel_rules(net: EmulatedNetwork, plan: TunnelPlan, udp_port: int) -> Rules:
    """Return the rules for the tunnel's labels only; other packets of the pair keep their paths."""
    rules, routes = split_rules(
        net.wiring, plan.there.forward, plan.back.forward, udp_port=udp_port
    )
    return tuple(rule for rule in rules if rule.priority != OTHER_PRIORITY), routes


@contextmanager
def running_tunnel(
    net: EmulatedNetwork, plan: TunnelPlan, number: int, installed: Installed
) -> Iterator[RunningTunnel]:
    """Start a tunnel, and remove it at the end of the context.

    Args:
        net: The network.
        plan: The plan of the tunnel.
        number: The number of the tunnel, 1 to 255; unique in the network.
        installed: Installs the tunnel's rules.

    Raises:
        InputError: The network has no addresses left for another tunnel.
    """
    if number > MAX_TUNNELS:
        raise InputError(
            f"tunnel {number} of one network: it has addresses for {MAX_TUNNELS}; "
            "begin another session"
        )
    # Report a missing permission before anything is installed.
    os.close(open_device())
    udp_port = STREAM_UDP_PORT + number
    device = f"tun{number}"
    addresses = {
        plan.there.source: f"172.31.{number}.1",
        plan.there.sink: f"172.31.{number}.2",
    }
    key = secrets.token_bytes(KEY_BYTES)
    with ExitStack() as stack:
        stack.enter_context(installed(tunnel_rules(net, plan, udp_port)))
        ends: dict[str, EndpointProcess] = {}
        for plan_of_end in (plan, plan.reversed()):
            node = plan_of_end.there.source
            peer = plan_of_end.there.sink
            spec = TunnelEndSpec(
                plan=plan_of_end,
                device=device,
                address=addresses[node],
                peer=addresses[peer],
                udp_port=udp_port,
                key=key,
            )
            host = net.wiring.host_at(node)
            peer_host = net.wiring.host_at(peer)
            ends[node] = stack.enter_context(tunnel_end(net, host, peer_host, spec))
        for end in ends.values():
            end.wait_until_ready()
        start_s = time.monotonic() + _LEAD_S
        for end in ends.values():
            end.begin(start_s)
        yield RunningTunnel(
            ends=ends, addresses=addresses, device=device, mtu=plan.mtu, start_s=start_s
        )
