"""The coordinator's connections to streams that machines offer (``relays``): one key a run, one port a machine."""

from __future__ import annotations

import secrets
import socket

from testbed.machines.adapters.cluster import Machines
from testbed.machines.adapters.relays import KEY_BYTES, connect_relay, serve_relays


class Streams:
    """Of all machines, once their parts of the network are up; they go with the network."""

    def __init__(self, machines: Machines) -> None:
        self._key = secrets.token_bytes(KEY_BYTES)
        addresses = [facts.address for facts in machines.facts]
        asked = [machines.call(k, serve_relays, address, self._key) for k, address in enumerate(addresses)]
        self._places = [(address, int(one.result(30))) for address, one in zip(addresses, asked, strict=True)]

    def open(self, machine: int, name: str) -> socket.socket:
        """Connected to the machine's stream of that name. CapabilityError where the machine does not answer."""
        return connect_relay(*self._places[machine], self._key, name)
