"""A machine's WireGuard interface: the kernel's, or a process of wireguard-go; ``wg`` configures both alike.

The private key is made here for the run, goes from ``wg genkey`` through pipes into the interface, and is forgotten: no
file, no argument, no answer carries it. The coordinator lets every machine open its interface and tell its public key;
then all learn of all, and then all are heard: whoever speaks first to a machine that knows nobody yet is answered by
the other's own first words. What VXLAN packets come in on the underlay beside WireGuard are dropped.

A machine's address inside is a function of its number. Each peer may only be itself: one address, which no other peer
has.
"""

import ipaddress
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from testbed.emulation.machine.encryption import TOOL, encryption_means
from testbed.emulation.network.kernel.rtnetlink import Netlink, packet_gate
from testbed.emulation.network.kernel.tunnels import tunnel_guard
from testbed.errors import CapabilityError, InputError
from testbed.machines.rpc import MachineState
from testbed.machines.tunnel_plan import Carrier
from topologies import lists_by_key

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
        raise InputError(
            f"machine {number}: WireGuard has addresses for {TUNNEL_NETWORK.num_addresses - 2}"
        )
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


def peers_of(
    number: int, public_keys: Sequence[str], addresses: Sequence[str], port: int
) -> tuple[Peer, ...]:
    """All machines but ``number``; ``addresses`` on the underlay, ``port`` WireGuard's on all of them.

    CapabilityError where an address of the underlay is one of those inside, or two machines have the same key.
    """
    if len(set(public_keys)) < len(public_keys):
        raise CapabilityError(
            "two machines have the same WireGuard key: are they the same machine?"
        )
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
        if (
            len(peer.public_key) != _KEY_CHARACTERS
            or not peer.public_key.endswith("=")
            or "\n" in peer.public_key
        ):
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


def missing_handshake_reason(
    names: Sequence[str], unheard: Mapping[int, Iterable[int]]
) -> str | None:
    """``unheard``: machine -> the peers that it has not heard. Who is not heard by most comes first; None where all
    are.

    >>> missing_handshake_reason(["a", "b", "c"], {0: [2], 1: [2], 2: [0, 1]})
    'c is not heard by a, b; a is not heard by c; b is not heard by c'
    """
    by = lists_by_key((one, listener) for listener, silent in unheard.items() for one in silent)
    worst = sorted(by, key=lambda one: (-len(by[one]), one))
    reported = [
        f"{names[one]} is not heard by {', '.join(names[k] for k in sorted(by[one]))}"
        for one in worst
    ]
    return "; ".join(reported) or None


_STORED = "wireguard"
_COMMAND_S = 60.0
_START_S = 30.0
_POLL_S = 0.05
_NICENESS = -10
_QUEUE_PACKETS = 10_000
"""Packets that may wait for wireguard-go: a burst of many cables must not be lost because it had no processor for a
moment."""


@dataclass(frozen=True, kw_only=True)
class OpenedInterface:
    """What the coordinator is told. ``by``: "kernel" or "wireguard-go"."""

    interface: str
    public_key: str
    by: str


@dataclass(frozen=True, kw_only=True)
class _WireguardState:
    """``inside``: words before each ``wg``, which take it to where wireguard-go's socket is."""

    interface: str
    inside: tuple[str, ...]


def open_wireguard(
    machine: MachineState, number: int, underlay: str, port: int, mtu: int
) -> OpenedInterface:
    """The interface, with a new key, listening on ``port``; nobody is its peer yet. ``mtu``: of the underlay.

    CapabilityError where this machine has neither kernel nor program for it, or they refuse.
    """
    by, lack = encryption_means()
    if lack is not None:
        raise CapabilityError(f"--encrypt: {lack}")
    name = f"wg{port}"
    if by == "kernel":
        _format(["ip", "link", "add", name, "type", "wireguard"])
        state = _WireguardState(interface=name, inside=())
    else:
        state = _WireguardState(interface=name, inside=_user_space(machine.name, by, name))
    with Netlink() as netlink:
        index = netlink.interfaces()[underlay]
        netlink.apply([packet_gate(index), tunnel_guard(index, VXLAN_PORT, ())])
    private = _format([TOOL, "genkey"])
    public = _format([TOOL, "pubkey"], private).strip()
    words = [
        *state.inside,
        TOOL,
        "set",
        name,
        "listen-port",
        str(port),
        "private-key",
        "/dev/stdin",
    ]
    _format(words, private)
    del private
    lines = [
        f"address add {inside_address(number)}/{TUNNEL_NETWORK.prefixlen} dev {name}",
        f"link set {name} mtu {mtu - WIREGUARD_BYTES} txqueuelen {_QUEUE_PACKETS} up",
    ]
    _format(["ip", "-batch", "-"], "\n".join(lines) + "\n")
    machine.objects[_STORED] = state
    return OpenedInterface(
        interface=name, public_key=public, by="kernel" if by == "kernel" else "wireguard-go"
    )


def add_peers(machine: MachineState, peers: tuple[Peer, ...]) -> None:
    """From now on these are heard, and nobody else."""
    state = machine.held(_STORED, _WireguardState)
    _format([*state.inside, TOOL, "addconf", state.interface, "/dev/stdin"], configuration(peers))


def unheard_peers(machine: MachineState, keys: tuple[str, ...], limit_s: float) -> frozenset[str]:
    """Of the peers with these keys, those with whom no key was agreed within the limit."""
    state, until = machine.held(_STORED, _WireguardState), time.monotonic() + limit_s
    while True:
        heard = peers_with_handshake(
            _format([*state.inside, TOOL, "show", state.interface, "latest-handshakes"])
        )
        missing = frozenset(keys) - heard
        if not missing or time.monotonic() > until:
            return missing
        time.sleep(_POLL_S)


def _user_space(machine: str, program: str, name: str) -> tuple[str, ...]:
    """Start wireguard-go; the words that take ``wg`` to it. Its socket is in a file system that only it has.

    Without it nothing crosses any more: should it end by itself, this process ends too, and whoever requests hears that
    the machine died.
    """
    script = 'mount -t tmpfs none /run && exec setpriv --pdeathsig KILL "$@"'
    words = ["unshare", "--mount", "sh", "-c", script, "sh", program, "--foreground", name]
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "LOG_LEVEL": "silent"},
    )
    with suppress(PermissionError):  # an ordinary user's waits its turn, as its switches do
        os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)
    until, path = (
        time.monotonic() + _START_S,
        Path(f"/proc/{process.pid}/root/run/wireguard/{name}.sock"),
    )
    while not (_there(name) and path.exists()):
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            raise CapabilityError(
                f"--encrypt: {program} made no interface; is /dev/net/tun open to this user?"
            )
        time.sleep(_POLL_S)
    threading.Thread(
        target=_end_with, args=(machine, process), name="wireguard-go", daemon=True
    ).start()
    return ("nsenter", "--mount", "--target", str(process.pid))


def _end_with(machine: str, process: subprocess.Popen[bytes]) -> None:
    process.wait()
    print(
        f"testbed: {machine}: wireguard-go has ended, and with it what crosses between machines",
        file=sys.stderr,
    )
    os._exit(1)


def _there(name: str) -> bool:
    try:
        socket.if_nametoindex(name)
    except OSError:
        return False
    return True


def _format(words: list[str], text: str = "") -> str:
    """What a command says. CapabilityError with its last words where it fails; never with what it was given."""
    try:
        done = subprocess.run(
            words, input=text, capture_output=True, text=True, timeout=_COMMAND_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CapabilityError(f"--encrypt: {words[0]}: {type(error).__name__}") from None
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise CapabilityError(f"--encrypt: {words[0]} failed ({said})")
    return done.stdout


HEARD_S = 40.0
"""A peer that is not heard by then is none: first words are repeated every 5 s."""
_MORE_S = 60.0


class _Answer(Protocol):
    def result(self, limit_s: float = ...) -> Any: ...


Ask = Callable[..., _Answer]
"""(number, function, *arguments): as of ``Machines.call``."""


def encrypt(
    ask: Ask, names: Sequence[str], plain: Sequence[Carrier]
) -> tuple[tuple[Carrier, ...], tuple[str, ...]]:
    """What the tunnels go through instead of ``plain``, and what speaks WireGuard on each machine.

    CapabilityError names a machine that cannot, and those that are not heard.
    """
    port = plain[0].port
    requested = [
        ask(k, open_wireguard, k, one.interface, port, one.mtu) for k, one in enumerate(plain)
    ]
    opened: list[OpenedInterface] = [one.result() for one in requested]
    keys = [one.public_key for one in opened]
    everybody = range(len(plain))
    peers = [peers_of(k, keys, [one.address for one in plain], port) for k in everybody]
    for one in [ask(k, add_peers, peers[k]) for k in everybody]:
        one.result()
    # What each is known by to the others: a machine whose key is another is waited for in vain.
    waiting = [
        ask(k, unheard_peers, tuple(peer.public_key for peer in peers[k]), HEARD_S)
        for k in everybody
    ]
    silent = [one.result(HEARD_S + _MORE_S) for one in waiting]
    number = {key: n for n, key in enumerate(keys)}
    reason = missing_handshake_reason(
        names, {k: [number[key] for key in silent[k]] for k in everybody}
    )
    if reason is not None:
        raise CapabilityError(
            f"--encrypt: {reason} by WireGuard within {HEARD_S:g} s; check that UDP port {port} is reachable "
            "and that each machine has its own key"
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
