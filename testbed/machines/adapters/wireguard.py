"""WireGuard interface of a machine: the kernel's, or the program wireguard-go.

``wg`` configures both in the same way. The private key is created on the machine for one run. It
goes from ``wg genkey`` through pipes into the interface and is then forgotten: no file, argument or
answer contains it.

The coordinator works in three steps. Each machine opens its interface and returns its public key.
Then each machine gets the keys of all others. Then each waits until it has exchanged keys with all
others. The order matters: a machine that sends to a peer which does not know it yet is not answered
until the peer sends first.

The underlay drops VXLAN packets that arrive beside WireGuard. The address of a machine inside the
tunnel is a function of its number. Each peer may use one address only, which no other peer has.
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

# Bytes that WireGuard adds to a packet over IPv4: IPv4 20, UDP 8, header 16, authentication tag 16
# (Donenfeld 2017, section 5.4.6).
WIREGUARD_BYTES = 60
# Addresses of the machines inside the tunnel. They are reserved for benchmarks of networks (RFC
# 2544), so no underlay should have them.
TUNNEL_NETWORK = ipaddress.ip_network("198.18.0.0/15")
# UDP port of VXLAN inside the tunnel (RFC 7348). On the underlay, WireGuard uses the port of the
# run.
VXLAN_PORT = 4789
# Time between two keep-alive packets, in seconds. They keep the entry in a firewall on the path,
# and begin the exchange of keys at once.
KEEPALIVE_S = 25
# A peer without an exchange of keys by then is unreachable, in seconds. WireGuard repeats the first
# message every 5 s.
HANDSHAKE_S = 40.0
# Additional time for a machine's answer about its peers, in seconds.
_ANSWER_S = 60.0
_KEY_CHARACTERS = 44

_STORED = "wireguard"
_COMMAND_S = 60.0
_START_S = 30.0
_POLL_S = 0.05
_NICENESS = -10
# Length of the interface's queue: it must hold a burst of many cables while wireguard-go waits for
# a processor.
_QUEUE_PACKETS = 10_000


def inside_address(number: int) -> str:
    """Return the IPv4 address of a machine inside the tunnel.

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
    """Another machine, as a WireGuard interface knows it.

    Attributes:
        public_key: Its public key, in base64.
        endpoint: Its IPv4 address on the underlay.
        port: UDP port of WireGuard there.
        inside: Its IPv4 address inside the tunnel.
    """

    public_key: str
    endpoint: str
    port: int
    inside: str

    @property
    def allowed_ips(self) -> str:
        """The addresses that the peer may use inside the tunnel."""
        return f"{self.inside}/32"


def peers_of(
    number: int, public_keys: Sequence[str], addresses: Sequence[str], port: int
) -> tuple[Peer, ...]:
    """Return the peers of a machine: all other machines.

    Args:
        number: Number of the machine.
        public_keys: Public key of each machine.
        addresses: IPv4 address of each machine on the underlay.
        port: UDP port of WireGuard on all machines.

    Raises:
        CapabilityError: An address of the underlay is in the network of the tunnel, or two machines
            have the same key.
    """
    if len(set(public_keys)) < len(public_keys):
        raise CapabilityError(
            "two machines have the same WireGuard key: are they the same machine?"
        )
    for address in addresses:
        if ipaddress.ip_address(address) in TUNNEL_NETWORK:
            raise CapabilityError(
                f"--encrypt: the underlay's address {address} is in {TUNNEL_NETWORK}, "
                "which WireGuard uses; give the underlay another network"
            )
    peers: list[Peer] = []
    for other, (key, address) in enumerate(zip(public_keys, addresses, strict=True)):
        if other != number:
            inside = inside_address(other)
            peers.append(Peer(public_key=key, endpoint=address, port=port, inside=inside))
    return tuple(peers)


def configuration(peers: Iterable[Peer]) -> str:
    """Return the input of ``wg addconf`` for these peers. It contains no private key.

    Raises:
        ValueError: A public key is invalid.
    """
    sections: list[str] = []
    for peer in peers:
        key = peer.public_key
        if len(key) != _KEY_CHARACTERS or not key.endswith("=") or "\n" in key:
            raise ValueError(f"not a WireGuard key: {key!r}")
        sections.append(
            f"[Peer]\nPublicKey = {key}\nAllowedIPs = {peer.allowed_ips}\n"
            f"Endpoint = {peer.endpoint}:{peer.port}\nPersistentKeepalive = {KEEPALIVE_S}\n"
        )
    return "".join(sections)


def peers_with_handshake(text: str) -> frozenset[str]:
    r"""Return the public keys of the peers with which a handshake is complete.

    Args:
        text: The output of ``wg show INTERFACE latest-handshakes``.

    >>> sorted(peers_with_handshake("a=\t0\nb=\t1789000000\n"))
    ['b=']
    """
    pairs = [line.split() for line in text.splitlines() if line.strip()]
    return frozenset(key for key, at_s in pairs if int(at_s) > 0)


def missing_handshake_reason(
    names: Sequence[str], unheard: Mapping[int, Iterable[int]]
) -> str | None:
    """Say which machines have not exchanged keys, or return None if all have.

    The machine that most others miss comes first.

    Args:
        names: Name of each machine.
        unheard: For each machine, the peers with which it has completed no handshake.

    >>> missing_handshake_reason(["a", "b", "c"], {0: [2], 1: [2], 2: [0, 1]})
    'c is not heard by a, b; a is not heard by c; b is not heard by c'
    """
    pairs: list[tuple[int, int]] = []
    for listener, silent_peers in unheard.items():
        pairs += [(peer, listener) for peer in silent_peers]
    listeners_of = lists_by_key(pairs)
    reasons: list[str] = []
    for peer in sorted(listeners_of, key=lambda peer: (-len(listeners_of[peer]), peer)):
        listeners = ", ".join(names[listener] for listener in sorted(listeners_of[peer]))
        reasons.append(f"{names[peer]} is not heard by {listeners}")
    return "; ".join(reasons) or None


@dataclass(frozen=True, kw_only=True)
class OpenedInterface:
    """A machine's answer about its interface.

    Attributes:
        interface: Name of the interface.
        public_key: Its public key, in base64.
        by: The implementation: "kernel" or "wireguard-go".
    """

    interface: str
    public_key: str
    by: str


@dataclass(frozen=True, kw_only=True)
class _WireguardState:
    """The interface, and the words before ``wg`` that enter the namespace of wireguard-go."""

    interface: str
    prefix: tuple[str, ...]


def open_wireguard(
    machine: MachineState, number: int, underlay: str, port: int, mtu: int
) -> OpenedInterface:
    """Create the interface with a new key and without peers.

    Args:
        machine: The machine.
        number: Its number.
        underlay: Name of its interface towards the other machines.
        port: UDP port of WireGuard.
        mtu: MTU of the underlay, in bytes.

    Raises:
        CapabilityError: The machine has no implementation of WireGuard, or it fails.
    """
    program, problem = encryption_means()
    if problem is not None:
        raise CapabilityError(f"--encrypt: {problem}")
    name = f"wg{port}"
    in_kernel = program == "kernel"
    prefix: tuple[str, ...] = ()
    if in_kernel:
        _run(["ip", "link", "add", name, "type", "wireguard"])
    else:
        prefix = _start_user_space(machine.name, program, name)
    with Netlink() as netlink:
        index = netlink.interfaces()[underlay]
        netlink.apply([packet_gate(index), tunnel_guard(index, VXLAN_PORT, ())])
    private_key = _run([TOOL, "genkey"])
    public_key = _run([TOOL, "pubkey"], private_key).strip()
    set_key = [TOOL, "set", name, "listen-port", str(port), "private-key", "/dev/stdin"]
    _run([*prefix, *set_key], private_key)
    del private_key
    lines = [
        f"address add {inside_address(number)}/{TUNNEL_NETWORK.prefixlen} dev {name}",
        f"link set {name} mtu {mtu - WIREGUARD_BYTES} txqueuelen {_QUEUE_PACKETS} up",
    ]
    _run(["ip", "-batch", "-"], "\n".join(lines) + "\n")
    machine.objects[_STORED] = _WireguardState(interface=name, prefix=prefix)
    by = "kernel" if in_kernel else "wireguard-go"
    return OpenedInterface(interface=name, public_key=public_key, by=by)


def add_peers(machine: MachineState, peers: tuple[Peer, ...]) -> None:
    """Add peers to the interface."""
    state = machine.held(_STORED, _WireguardState)
    _run([*state.prefix, TOOL, "addconf", state.interface, "/dev/stdin"], configuration(peers))


def wait_for_handshakes(
    machine: MachineState, keys: tuple[str, ...], limit_s: float
) -> frozenset[str]:
    """Wait for the handshakes with peers.

    Args:
        machine: The machine.
        keys: Public keys of the peers.
        limit_s: Limit on the time, in seconds.

    Returns:
        The keys of the peers without a handshake.
    """
    state = machine.held(_STORED, _WireguardState)
    until_s = time.monotonic() + limit_s
    while True:
        output = _run([*state.prefix, TOOL, "show", state.interface, "latest-handshakes"])
        missing = frozenset(keys) - peers_with_handshake(output)
        if not missing or time.monotonic() > until_s:
            return missing
        time.sleep(_POLL_S)


def _start_user_space(machine: str, program: str, name: str) -> tuple[str, ...]:
    """Start wireguard-go, and return the words before ``wg`` that enter its mount namespace.

    Its control socket is in a file system that only it has. Without it no packet crosses between
    machines: if it ends, this process ends too, so that the coordinator notices.

    Args:
        machine: Name of the machine, for messages.
        program: Path of wireguard-go.
        name: Name of the interface.
    """
    script = 'mount -t tmpfs none /run && exec setpriv --pdeathsig KILL "$@"'
    argv = ["unshare", "--mount", "sh", "-c", script, "sh", program, "--foreground", name]
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "LOG_LEVEL": "silent"},
    )
    # An ordinary user may not raise the priority of a process.
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)
    until_s = time.monotonic() + _START_S
    control_socket = Path(f"/proc/{process.pid}/root/run/wireguard/{name}.sock")
    while not (_interface_exists(name) and control_socket.exists()):
        if process.poll() is not None or time.monotonic() > until_s:
            process.kill()
            raise CapabilityError(
                f"--encrypt: {program} created no interface; "
                "make /dev/net/tun accessible to this user"
            )
        time.sleep(_POLL_S)
    threading.Thread(
        target=_end_with, args=(machine, process), name="wireguard-go", daemon=True
    ).start()
    return ("nsenter", "--mount", "--target", str(process.pid))


def _end_with(machine: str, process: subprocess.Popen[bytes]) -> None:
    """Wait for the process, then end this one."""
    process.wait()
    print(
        f"testbed: {machine}: wireguard-go has ended, so no packet reaches other machines",
        file=sys.stderr,
    )
    os._exit(1)


def _interface_exists(name: str) -> bool:
    try:
        socket.if_nametoindex(name)
    except OSError:
        return False
    return True


def _run(argv: list[str], text: str = "") -> str:
    """Run a command with the text as its input, and return its output.

    Raises:
        CapabilityError: The command failed. The message has the command's last line, but never its
            arguments or its input, which may be a private key.
    """
    try:
        result = subprocess.run(
            argv, input=text, capture_output=True, text=True, timeout=_COMMAND_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CapabilityError(f"--encrypt: {argv[0]}: {type(error).__name__}") from None
    if result.returncode != 0:
        lines = result.stderr.strip().splitlines() or ["no reason given"]
        raise CapabilityError(f"--encrypt: {argv[0]} failed ({lines[-1]})")
    return result.stdout


class _Answer(Protocol):
    def result(self, limit_s: float = ...) -> Any: ...


# Calls a function on a machine: (number, function, *arguments), as ``Machines.call``.
Ask = Callable[..., _Answer]


def encrypt(
    ask: Ask, names: Sequence[str], plain: Sequence[Carrier]
) -> tuple[tuple[Carrier, ...], tuple[str, ...]]:
    """Connect all machines by WireGuard.

    Args:
        ask: Calls a function on a machine.
        names: Name of each machine.
        plain: The interface of each machine towards the others.

    Returns:
        The WireGuard interface of each machine, and its implementation.

    Raises:
        CapabilityError: A machine has no WireGuard, or does not hear another one.
    """
    port = plain[0].port
    numbers = range(len(plain))
    opening = [ask(k, open_wireguard, k, plain[k].interface, port, plain[k].mtu) for k in numbers]
    opened: list[OpenedInterface] = [answer.result() for answer in opening]
    keys = [interface.public_key for interface in opened]
    addresses = [carrier.address for carrier in plain]
    peers = [peers_of(k, keys, addresses, port) for k in numbers]
    for answer in [ask(k, add_peers, peers[k]) for k in numbers]:
        answer.result()
    waiting: list[_Answer] = []
    for k in numbers:
        # The keys that this machine got: with a wrong one it waits in vain, and is reported.
        peer_keys = tuple(peer.public_key for peer in peers[k])
        waiting.append(ask(k, wait_for_handshakes, peer_keys, HANDSHAKE_S))
    number_of_key = {key: number for number, key in enumerate(keys)}
    unheard: dict[int, list[int]] = {}
    for k, answer in enumerate(waiting):
        unheard[k] = [number_of_key[key] for key in answer.result(HANDSHAKE_S + _ANSWER_S)]
    reason = missing_handshake_reason(names, unheard)
    if reason is not None:
        raise CapabilityError(
            f"--encrypt: {reason} by WireGuard within {HANDSHAKE_S:g} s; "
            f"check that UDP port {port} is reachable and that each machine has its own key"
        )
    carriers: list[Carrier] = []
    for k, interface in enumerate(opened):
        carrier = Carrier(
            interface=interface.interface,
            address=inside_address(k),
            mtu=plain[k].mtu - WIREGUARD_BYTES,
            port=VXLAN_PORT,
            framed=False,
        )
        carriers.append(carrier)
    return tuple(carriers), tuple(interface.by for interface in opened)
