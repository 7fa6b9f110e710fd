"""Who may send what from where inside WireGuard: addresses, allowed addresses, configuration, and whose words were not
heard; pure.

A machine's address inside is a function of its number. Each peer may only be itself: one address, which no other peer
has.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from testbed.errors import CapabilityError, InputError

WIREGUARD_BYTES = 60
"""What WireGuard puts around a packet over IPv4: IPv4 20, UDP 8, header 16, authentication tag 16 (its paper,
5.4.6)."""
TUNNEL_NETWORK = ipaddress.ip_network("198.18.0.0/15")
"""Addresses of the machines inside: those that are set aside for trials of networks (RFC 2544), which no underlay
should have."""
VXLAN_PORT = 4789
"""The tunnels' UDP port inside (RFC 7348); the run's own port on the underlay is WireGuard's."""
KEEPALIVE_S = 25
"""So often a peer is told something at least: a firewall on the way forgets nobody, and the first words are exchanged
at once."""
_KEY_CHARACTERS = 44


def inside_address(number: int) -> str:
    """IPv4 address of machine ``number`` inside.

    >>> inside_address(0), inside_address(255)
    ('198.18.0.1', '198.18.1.0')
    """
    if not 0 <= number < TUNNEL_NETWORK.num_addresses - 2:
        raise InputError(f"machine {number}: WireGuard has addresses for {TUNNEL_NETWORK.num_addresses - 2}")
    return str(TUNNEL_NETWORK[number + 1])


@dataclass(frozen=True, kw_only=True)
class Peer:
    """Another machine: its public key (base64), where it is on the underlay, and the one address that it may have
    inside."""

    public_key: str
    endpoint: str
    port: int
    inside: str

    @property
    def allowed_ips(self) -> str:
        """What may come from it, and what goes to it."""
        return f"{self.inside}/32"


def peers_of(number: int, public_keys: Sequence[str], addresses: Sequence[str], port: int) -> tuple[Peer, ...]:
    """All machines but ``number``; ``addresses`` on the underlay, ``port`` WireGuard's on all of them.

    CapabilityError where an address of the underlay is one of those inside, or two machines have the same key.
    """
    if len(set(public_keys)) < len(public_keys):
        raise CapabilityError("two machines have the same WireGuard key: are they the same machine?")
    for address in addresses:
        if ipaddress.ip_address(address) in TUNNEL_NETWORK:
            raise CapabilityError(
                f"--encrypt: the underlay's address {address} lies in {TUNNEL_NETWORK}, which WireGuard takes; "
                "give the underlay others"
            )
    return tuple(
        Peer(public_key=key, endpoint=address, port=port, inside=inside_address(other))
        for other, (key, address) in enumerate(zip(public_keys, addresses, strict=True))
        if other != number
    )


def configuration(peers: Iterable[Peer]) -> str:
    """The peers in the words of ``wg addconf``. It has no private key: an interface's own is set apart from this.

    ValueError where a key is none.
    """
    parts = []
    for peer in peers:
        if len(peer.public_key) != _KEY_CHARACTERS or not peer.public_key.endswith("=") or "\n" in peer.public_key:
            raise ValueError(f"not a WireGuard key: {peer.public_key!r}")
        parts.append(
            f"[Peer]\nPublicKey = {peer.public_key}\nAllowedIPs = {peer.allowed_ips}\n"
            f"Endpoint = {peer.endpoint}:{peer.port}\nPersistentKeepalive = {KEEPALIVE_S}\n"
        )
    return "".join(parts)


def peers_with_handshake(text: str) -> frozenset[str]:
    """The peers with whom keys have been agreed, of what ``wg show INTERFACE latest-handshakes`` says.

    >>> sorted(peers_with_handshake("a=\\t0\\nb=\\t1789000000\\n"))
    ['b=']
    """
    pairs = [line.split() for line in text.splitlines() if line.strip()]
    return frozenset(key for key, at_s in pairs if int(at_s) > 0)


def missing_handshake_reason(names: Sequence[str], unheard: Mapping[int, Iterable[int]]) -> str | None:
    """``unheard``: machine -> the peers that it has not heard. Who is not heard by most comes first; None where all
    are.

    >>> missing_handshake_reason(["a", "b", "c"], {0: [2], 1: [2], 2: [0, 1]})
    'c is not heard by a, b; a is not heard by c; b is not heard by c'
    """
    by: dict[int, list[int]] = {}
    for listener, silent in unheard.items():
        for one in silent:
            by.setdefault(one, []).append(listener)
    worst = sorted(by, key=lambda one: (-len(by[one]), one))
    reported = [f"{names[one]} is not heard by {', '.join(names[k] for k in sorted(by[one]))}" for one in worst]
    return "; ".join(reported) or None
