"""The coordinator's part: every machine opens its interface and tells its public key, then all learn of all, then all
are heard.

Two steps, so that whoever speaks first to a machine that knows nobody yet is answered by the other's own first words.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from testbed.errors import CapabilityError
from testbed.machines.encryption.adapters.wireguard import (
    OpenedInterface,
    add_peers,
    open_wireguard,
    unheard_peers,
)
from testbed.machines.encryption.peers import (
    VXLAN_PORT,
    WIREGUARD_BYTES,
    Peer,
    inside_address,
    missing_handshake_reason,
    peers_of,
)
from testbed.machines.tunnel_plan import Carrier

HEARD_S = 40.0
"""A peer that is not heard by then is none: first words are repeated every 5 s."""
_MORE_S = 60.0


class _Answer(Protocol):
    def result(self, limit_s: float = ...) -> Any: ...


Ask = Callable[..., _Answer]
"""(number, function, *arguments): as of ``Machines.call``."""


def encrypt(ask: Ask, names: Sequence[str], plain: Sequence[Carrier]) -> tuple[tuple[Carrier, ...], tuple[str, ...]]:
    """What the tunnels go through instead of ``plain``, and what speaks WireGuard on each machine.

    CapabilityError names a machine that cannot, and those that are not heard.
    """
    port = plain[0].port
    requested = [ask(k, open_wireguard, k, one.interface, port, one.mtu) for k, one in enumerate(plain)]
    opened: list[OpenedInterface] = [one.result() for one in requested]
    keys = [one.public_key for one in opened]
    everybody = range(len(plain))
    peers = [peers_of(k, keys, [one.address for one in plain], port) for k in everybody]
    for one in [ask(k, add_peers, peers[k]) for k in everybody]:
        one.result()
    # What each is known by to the others: a machine whose key is another is waited for in vain.
    waiting = [ask(k, unheard_peers, tuple(peer.public_key for peer in peers[k]), HEARD_S) for k in everybody]
    silent = [one.result(HEARD_S + _MORE_S) for one in waiting]
    number = {peer.public_key: n for k in everybody for n, peer in _numbered(k, peers[k])}
    reason = missing_handshake_reason(names, {k: [number[key] for key in silent[k]] for k in everybody})
    if reason is not None:
        raise CapabilityError(
            f"--encrypt: {reason} by WireGuard within {HEARD_S:g} s; check that UDP port {port} is reachable and that each machine has its own key"
        )
    carriers = tuple(
        Carrier(
            interface=one.interface,
            address=inside_address(k),
            mtu=plain[k].mtu - WIREGUARD_BYTES,
            port=VXLAN_PORT,
            framed=False,
        )
        for k, one in enumerate(opened)
    )
    return carriers, tuple(one.by for one in opened)


def _numbered(machine: int, peers: Sequence[Peer]) -> list[tuple[int, Peer]]:
    """The peers of a machine with their numbers: all but its own, in order."""
    return [(n if n < machine else n + 1, peer) for n, peer in enumerate(peers)]
