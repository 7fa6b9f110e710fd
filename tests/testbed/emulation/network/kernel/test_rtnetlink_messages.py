"""Our netlink messages mean what we meant: pyroute2, which shares no line with us, reads what we write and writes what
we read."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.marshal import MarshalRtnl
from pyroute2.netlink.rtnl.tcmsg.common import tick_in_usec

from testbed.emulation.network.kernel.queues import netem_line, token_bucket
from testbed.emulation.network.kernel.rtnetlink import (
    Message,
    Netlink,
    NetlinkError,
    VethEnd,
    add_address,
    add_neighbour,
    delete_group,
    delete_queue,
    drop_rule,
    make_veth,
    packet_gate,
    set_group,
    set_up,
)

REQUEST, ACK, REPLACE, EXCL, CREATE = 0x1, 0x4, 0x100, 0x200, 0x400
NEW_LINK, DEL_LINK, NEW_QUEUE, DEL_QUEUE, NEW_FILTER, DEL_FILTER = 16, 17, 36, 37, 44, 45


class FakeKernel:
    """A socket that keeps what is sent and answers with ready-made messages, numbered as the last request."""

    def __init__(self, *answers: bytes) -> None:
        self.sent = b""
        self._answers = answers

    def setsockopt(self, *_: object) -> None: ...

    def settimeout(self, _: float) -> None: ...

    def send(self, data: bytes) -> None:
        self.sent += data

    def recv(self, _: int) -> bytes:
        number = self.requests()[-1]["header"]["sequence_number"]
        numbered = (
            answer[:8] + struct.pack("=I", number) + answer[12:]
            for answer in self._answers or (verdict(0),)
        )
        return b"".join(numbered)

    def requests(self) -> list[Any]:
        return list(MarshalRtnl().parse(self.sent))


def verdict(code: int) -> bytes:
    """The kernel's answer to a request: 0, or the number of an error with its words."""
    words = struct.pack("=HH", 4 + 8, 1) + b"no way\0\0"
    body = struct.pack("=i", -code) + bytes(16) + words
    return struct.pack("=IHHII", 16 + len(body), 2, 0, 0, 0) + body


def read_back(*messages: Message) -> list[Any]:
    """The messages as pyroute2 understands the bytes that go to the kernel."""
    kernel = FakeKernel()
    Netlink(kernel).apply(messages)  # type: ignore[arg-type]
    return kernel.requests()


def attributes(message: Any) -> dict[str, Any]:
    return dict(message["attrs"])


def test_veth_pair_has_both_ends_where_they_belong() -> None:
    near = VethEnd(name="a0", index=7, mac=b"\2\0\0\0\0\1")
    far = VethEnd(name="b0", index=8, mac=b"\2\0\0\0\0\2", namespace=5)
    (made,) = read_back(make_veth(near, far, mtu=9000, group=77))
    assert (
        made["header"]["type"] == NEW_LINK
        and made["header"]["flags"] == REQUEST | ACK | CREATE | EXCL
    )
    assert (made["index"], made["state"], made.get_attr("IFLA_IFNAME")) == (7, "up", "a0")
    shared = {"IFLA_MTU": 9000, "IFLA_NUM_TX_QUEUES": 1, "IFLA_NUM_RX_QUEUES": 1}
    info = made.get_attr("IFLA_LINKINFO")
    peer = info.get_attr("IFLA_INFO_DATA").get_attr("VETH_INFO_PEER")
    assert info.get_attr("IFLA_INFO_KIND") == "veth"
    assert (
        attributes(made).items()
        >= (shared | {"IFLA_ADDRESS": "02:00:00:00:00:01", "IFLA_GROUP": 77}).items()
    )
    assert (peer["index"], peer["change"]) == (8, 0)
    named = {"IFLA_IFNAME": "b0", "IFLA_ADDRESS": "02:00:00:00:00:02", "IFLA_NET_NS_FD": 5}
    assert attributes(peer) == shared | named, "the far end is in its namespace, in no group"


@given(index=st.integers(1, 2**31 - 1), up=st.booleans(), group=st.integers(0, 2**32 - 1))
def test_interfaces_go_up_and_down_and_into_groups(index: int, up: bool, group: int) -> None:
    moved, grouped, gone = read_back(
        set_up(index, up), set_group(index, group), delete_group(group)
    )
    assert (moved["index"], moved["state"], moved["change"]) == (index, "up" if up else "down", 1)
    assert (grouped["index"], grouped["change"], attributes(grouped)) == (
        index,
        0,
        {"IFLA_GROUP": group},
    )
    assert (gone["header"]["type"], gone["index"], attributes(gone)) == (
        DEL_LINK,
        0,
        {"IFLA_GROUP": group},
    )
    assert [m["header"]["flags"] for m in (moved, grouped, gone)] == [
        REQUEST,
        REQUEST,
        REQUEST | ACK,
    ]


@pytest.mark.parametrize(
    ("prefix", "broadcast"), [(8, "10.255.255.255"), (24, "10.1.2.255"), (32, "10.1.2.3")]
)
def test_addresses_and_neighbours_are_those_given(prefix: int, broadcast: str) -> None:
    address, neighbour = read_back(
        add_address(7, "10.1.2.3", prefix), add_neighbour(9, b"\x0a\1\2\4", b"\2\0\0\0\0\2")
    )
    assert (address["index"], address["prefixlen"], address["header"]["flags"] & REPLACE) == (
        7,
        prefix,
        REPLACE,
    )
    names = ("IFA_ADDRESS", "IFA_LOCAL", "IFA_BROADCAST")
    assert attributes(address) == dict(zip(names, ("10.1.2.3", "10.1.2.3", broadcast), strict=True))
    assert (neighbour["ifindex"], neighbour["state"]) == (9, 0x80), "permanent"
    assert attributes(neighbour) == {"NDA_DST": "10.1.2.4", "NDA_LLADDR": "02:00:00:00:00:02"}


@given(
    rate_bps=st.floats(1e4, 3e10), burst=st.integers(1500, 10**6), queue=st.integers(1500, 10**7)
)
def test_shaper_has_rate_burst_and_queue(rate_bps: float, burst: int, queue: int) -> None:
    (made,) = read_back(
        token_bucket(7, rate_bps=rate_bps, burst_bytes=burst, queue_bytes=queue, parent=0x10001)
    )
    shaper = made.get_attr("TCA_OPTIONS").get_attr("TCA_TBF_PARMS")
    assert (made["index"], made["parent"], made.get_attr("TCA_KIND")) == (7, 0x10001, "tbf")
    assert shaper["rate"] == pytest.approx(rate_bps / 8, abs=0.5) and shaper["limit"] == queue
    burst_s = shaper["buffer"] / tick_in_usec / 1e6
    most_s = 0xFFFFFFFF / tick_in_usec / 1e6  # what 32 bits of the packet scheduler's clock can say
    assert burst_s == pytest.approx(min(burst / shaper["rate"], most_s), abs=1 / tick_in_usec / 1e6)


@given(delay_s=st.floats(0, 4), loss=st.floats(0, 1))
def test_netem_queue_holds_and_loses(delay_s: float, loss: float) -> None:
    (made,) = read_back(netem_line(7, delay_s=delay_s, loss=loss))
    queue = made.get_attr("TCA_OPTIONS")
    assert (made["parent"], made["handle"], made.get_attr("TCA_KIND")) == (
        0xFFFFFFFF,
        0x10000,
        "netem",
    )
    assert queue["delay"] / tick_in_usec == pytest.approx(delay_s * 1e6, abs=1)
    assert (
        queue["loss"] / (2**32 - 1) == pytest.approx(loss, abs=1e-9) and queue["limit"] == 100_000
    )


@given(loss=st.floats(1e-6, 1 - 1e-6), drawn=st.floats(0, 1 - 1e-9))
def test_gate_and_drop_rule_are_before_the_queues(loss: float, drawn: float) -> None:
    gate, rule, gone, bare = read_back(
        packet_gate(7), drop_rule(7, loss), drop_rule(7, loss, "remove"), delete_queue(7)
    )
    assert (gate["header"]["type"], gate.get_attr("TCA_KIND"), gate["handle"]) == (
        NEW_QUEUE,
        "clsact",
        0xFFFF0000,
    )
    assert gate["parent"] == 0xFFFFFFF1 and rule["parent"] == gone["parent"] == 0xFFFFFFF3, (
        "egress of clsact"
    )
    assert (rule["header"]["type"], gone["header"]["type"]) == (NEW_FILTER, DEL_FILTER)
    assert rule["info"] == gone["info"] == 2 << 16 | 0x0300, (
        "behind the detour of impaired links, every protocol in network order"
    )
    assert (bare["header"]["type"], bare["parent"]) == (DEL_QUEUE, 0xFFFFFFFF)
    options = rule.get_attr("TCA_OPTIONS")
    assert (options.get_attr("TCA_BPF_FLAGS"), options.get_attr("TCA_BPF_OPS_LEN")) == (1, 4), (
        "the program's answer acts"
    )
    stolen, unspecified = 4, 0xFFFFFFFF
    expected = stolen if round(drawn * 2**32) < round(loss * 2**32) else unspecified
    assert run_program(drop_rule(7, loss), round(drawn * 2**32)) == expected
    assert run_program(drop_rule(7, 1.0), round(drawn * 2**32)) == stolen


def run_program(message: Message, random: int) -> int:
    """What the rule's classic BPF program answers when the kernel draws this number."""
    at = message[2].rindex(struct.pack("=HHI", 8, 8, 1))  # TCA_BPF_FLAGS comes last
    start = (
        message[2].index(b"bpf\0") + 4 + 4 + 8 + 4
    )  # after the kind, the options' header, OPS_LEN, OPS' header
    steps = list(struct.iter_unpack("=HBBI", message[2][start:at]))
    accumulator, counter = 0, 0
    while True:
        code, if_true, if_false, constant = steps[counter]
        counter += 1
        if code == 0x20:
            assert constant == 0xFFFFF000 + 56, "the kernel's random number"
            accumulator = random
        elif code == 0x35:
            counter += if_true if accumulator >= constant else if_false
        else:
            assert code == 0x06
            return int(constant)


def interface(name: str, index: int, *attrs: tuple[str, Any]) -> bytes:
    message = ifinfmsg()
    message["index"] = index
    message["attrs"] = [("IFLA_IFNAME", name), *attrs]
    message["header"]["type"] = NEW_LINK
    message.encode()
    return bytes(message.data)


def test_kernel_lists_are_read() -> None:
    done = struct.pack("=IHHII", 20, 3, 0, 0, 0) + bytes(4)
    listing = FakeKernel(interface("lo", 1), interface("veth-a", 70_000), done)
    assert Netlink(listing).interfaces() == {"lo": 1, "veth-a": 70_000}  # type: ignore[arg-type]
    for state, holds in (("UP", True), ("DOWN", False), ("LOWERLAYERDOWN", False)):
        kernel = FakeKernel(interface("a", 7, ("IFLA_OPERSTATE", state)))
        assert Netlink(kernel).is_operational(7) is holds  # type: ignore[arg-type]
        assert kernel.requests()[0]["index"] == 7


def test_a_refused_message_is_told_in_the_kernels_words() -> None:
    kernel = FakeKernel(verdict(17))
    with pytest.raises(NetlinkError, match="no way") as caught:
        Netlink(kernel).apply([set_up(1, True), set_up(2, True)])  # type: ignore[arg-type]
    assert caught.value.errno == 17


def test_kernel_that_does_not_answer_is_told_from_one_that_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(_: Netlink) -> Iterator[tuple[int, int, bytes]]:
        raise TimeoutError
        yield

    monkeypatch.setattr(Netlink, "_answers", never)
    with Netlink() as netlink, pytest.raises(NetlinkError, match="no answer within 7 s") as said:
        netlink.apply([set_up(1, True)], limit_s=7)
    assert said.value.errno == errno.ETIMEDOUT
