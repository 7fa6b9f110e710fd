"""The coordinator's connections to streams that machines offer (``relays``): one key a run, one port a machine."""

import secrets
import socket

from testbed.machines.adapters.cluster import Machines
from testbed.machines.adapters.stream_forwarding import KEY_BYTES, connect_relay, serve_streams
from testbed.machines.tunnel_plan import tunnel_port


class Streams:
    """Of all machines, once their parts of the network are up; they go with the network."""

    def __init__(self, machines: Machines) -> None:
        self._key = secrets.token_bytes(KEY_BYTES)
        port = tunnel_port(machines.run)
        self._places = [(facts.address, port) for facts in machines.facts]
        for one in [machines.call(k, serve_streams, *place, self._key) for k, place in enumerate(self._places)]:
            one.result(30)

    def open(self, machine: int, name: str) -> socket.socket:
        """Connected to the machine's stream of that name. CapabilityError where the machine does not answer."""
        return connect_relay(*self._places[machine], self._key, name)
