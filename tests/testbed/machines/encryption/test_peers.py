"""Who may be whom inside WireGuard: one address a peer, which nobody else has; the private key is in nothing that is
told or kept."""

from __future__ import annotations

import base64
import ipaddress
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import CapabilityError, InputError
from testbed.machines.adapters import wireguard
from testbed.machines.adapters.wireguard import (
    TUNNEL_NETWORK,
    configuration,
    inside_address,
    missing_handshake_reason,
    peers_of,
)
from testbed.machines.rpc import MachineState
from tests.helpers.drawn import drawn


def key(number: int) -> str:
    return base64.b64encode(number.to_bytes(32, "big")).decode()


@given(st.integers(2, 300))
@drawn(15)
def test_no_two_peers_share_an_allowed_address_and_nobody_is_its_own(machines: int) -> None:
    keys, addresses = (
        [key(k) for k in range(machines)],
        [f"10.0.{k >> 8}.{k & 255}" for k in range(machines)],
    )
    own = [ipaddress.ip_network(inside_address(k)) for k in range(machines)]
    for k in {0, machines // 2, machines - 1}:
        peers = peers_of(k, keys, addresses, 20006)
        allowed = [ipaddress.ip_network(peer.allowed_ips) for peer in peers]
        assert all(one.num_addresses == 1 and one.subnet_of(TUNNEL_NETWORK) for one in allowed)
        assert len({*allowed, own[k]}) == machines
        # what one is allowed is what it has, wherever it is asked
        assert allowed == own[:k] + own[k + 1 :]
        assert [peer.public_key for peer in peers] == keys[:k] + keys[k + 1 :]


def test_configuration_lists_end_point_and_address_of_peers() -> None:
    text = configuration(
        peers_of(1, [key(7), key(8), key(9)], ["10.0.0.1", "10.0.0.2", "10.0.0.3"], 20006)
    )
    sections = [
        dict(line.split(" = ") for line in part.strip().splitlines())
        for part in text.split("[Peer]")[1:]
    ]
    assert [one["PublicKey"] for one in sections] == [key(7), key(9)]
    assert [one["AllowedIPs"] for one in sections] == ["198.18.0.1/32", "198.18.0.3/32"]
    assert [one["Endpoint"] for one in sections] == ["10.0.0.1:20006", "10.0.0.3:20006"]
    assert "PrivateKey" not in text and "[Interface]" not in text


def test_invalid_peers_are_refused() -> None:
    with pytest.raises(CapabilityError, match=r"198\.18\.3\.4"):
        peers_of(0, [key(1), key(2)], ["10.0.0.1", "198.18.3.4"], 20006)
    with pytest.raises(CapabilityError, match="same WireGuard key"):
        peers_of(0, [key(1), key(1)], ["10.0.0.1", "10.0.0.2"], 20006)
    with pytest.raises(InputError):
        inside_address(-1)
    with pytest.raises(ValueError, match="not a WireGuard key"):
        configuration(
            peers_of(0, [key(1), "x=\nAllowedIPs = 0.0.0.0/0"], ["10.0.0.1", "10.0.0.2"], 1)
        )


def test_silent_peers_are_named_worst_first() -> None:
    assert missing_handshake_reason(["a", "b"], {0: [], 1: []}) is None
    assert (missing_handshake_reason(["a", "b"], {0: [1], 1: []}) or "").startswith(
        "b is not heard by a"
    )
    assert (
        missing_handshake_reason(["a", "b", "c"], {0: [1], 1: [0, 2], 2: [1]}) or ""
    ).startswith("b is not heard by a, c")


def test_the_private_key_goes_into_the_interface_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    private, public = key(1234), key(5678)
    commands: list[tuple[list[str], str]] = []

    def told(words: list[str], text: str = "") -> str:
        commands.append((words, text))
        return {"genkey": private + "\n", "pubkey": public + "\n"}.get(words[-1], "")

    class NoNetlink:
        def __enter__(self) -> NoNetlink:
            return self

        def __exit__(self, *_: object) -> None: ...

        def interfaces(self) -> dict[str, int]:
            return {"eth0": 2}

        def apply(self, _: Any) -> None: ...

    monkeypatch.setattr(wireguard, "encryption_means", lambda: ("kernel", None))
    monkeypatch.setattr(wireguard, "_run", told)
    monkeypatch.setattr(wireguard, "Netlink", NoNetlink)
    machine = MachineState(name="m")
    opened = wireguard.open_wireguard(machine, 3, "eth0", 20006, 1500)
    wireguard.add_peers(
        machine, peers_of(3, [key(k) for k in range(4)], [f"10.0.0.{k}" for k in range(4)], 20006)
    )
    given = [words for words, text in commands if private in text]
    assert [words[:2] for words in given] == [["wg", "pubkey"], ["wg", "set"]] and given[1][
        -2:
    ] == [
        "private-key",
        "/dev/stdin",
    ]
    kept = [
        repr(opened),
        repr(machine),
        json.dumps(vars(opened)),
        str([words for words, _ in commands]),
    ]
    assert not any(private in text for text in kept) and opened.public_key == public
    for data in (pickle.dumps((opened, None)), pickle.dumps(machine.objects)):
        assert private.encode() not in data
    assert "link set wg20006 mtu 1440" in commands[-2][1] and "198.18.0.4/15" in commands[-2][1]


def test_a_command_that_fails_says_nothing_of_what_it_was_given() -> None:
    with pytest.raises(CapabilityError) as refused:
        wireguard._run(["sh", "-c", "cat > /dev/null; echo no >&2; exit 1"], "a secret")
    assert "secret" not in str(refused.value) and "(no)" in str(refused.value)
