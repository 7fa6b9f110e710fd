"""What the kernel is told for impaired links, field by field as linux/pkt_sched.h has them, and which words one netem
queue can do."""

from __future__ import annotations

import struct

import pytest

from testbed.emulation.network.impairments.tc_messages import NetemOptions, detour_rule, netem_line, netem_options
from testbed.emulation.network.kernel.rtnetlink import RTM_DELTFILTER, drop_rule, tick_ns
from topologies.impairments import parse_impairments

WHOLE = 0xFFFFFFFF


def _fields(blob: bytes) -> dict[int, bytes]:
    found, at = {}, 0
    while at + 4 <= len(blob):
        size, kind = struct.unpack_from("=HH", blob, at)
        found[kind & 0x3FFF] = blob[at + 4 : at + size]
        at += size + 3 & ~3
    return found


def _netem(words: str, delay_s: float = 0.0) -> tuple[tuple[int, ...], dict[int, bytes]]:
    """(tc_netem_qopt's six numbers, the attributes behind it)."""
    options = netem_options(parse_impairments(words), delay_s)
    assert options is not None
    _, _, body = netem_line(7, options)
    outer = _fields(body[20:])
    assert outer[1] == b"netem\0" and struct.unpack_from("=4xi", body)[0] == 7
    return struct.unpack_from("=6I", outer[2]), _fields(outer[2][24:])


def test_chain_is_told_as_p_r_h_and_1_k() -> None:
    numbers, more = _netem("ge:p=0.01,r=0.3,1-h=0.75,1-k=0.001")
    assert numbers[2] == 0
    chain = struct.unpack("=4I", _fields(more[5])[2])
    assert chain == tuple(round(value * WHOLE) for value in (0.01, 0.3, 0.25, 0.001))


def test_delay_and_jitter_are_told_in_ticks_and_in_nanoseconds_beside_the_link_s_own_delay() -> None:
    numbers, more = _netem("delay:0.02,jitter=0.005", delay_s=0.01)
    assert numbers[0] == round(30e6 / tick_ns()) and numbers[5] == round(5e6 / tick_ns())
    assert struct.unpack("=q", more[10]) == (30_000_000,) and struct.unpack("=q", more[11]) == (5_000_000,)


def test_loss_and_copies_are_shares_of_all_ones() -> None:
    assert _netem("loss:0.5")[0][2] == round(0.5 * WHOLE)
    assert _netem("duplicate:0.1")[0][4] == round(0.1 * WHOLE)
    assert _netem("")[0][2:6] == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("words", "delay_s"),
    [
        ("trace:ms=10", 0.0),
        ("jitter:0.01 loss:0.1", 0.0),
        ("loss:0.1 duplicate:0.1", 0.0),
        ("jitter:0.01 reorder:0.1", 0.0),
        ("reorder:0.1", 0.0),
        ("loss:0.1 reorder:0.1", 0.0),
        ("ge:p=0.1,r=0.1 loss:0.1", 0.0),
    ],
)
def test_what_one_queue_cannot_do_in_the_order_of_the_words_is_left_to_the_relay(words: str, delay_s: float) -> None:
    assert netem_options(parse_impairments(words), delay_s) is None


def test_no_impairment_is_a_queue_that_only_delays_as_the_link_does() -> None:
    assert netem_options((), 0.02) == NetemOptions(delay_s=0.02)


def test_packets_go_on_a_detour_before_they_may_be_dropped_and_only_once() -> None:
    _, _, body = detour_rule(7, mark=0x7E570007, through=1000)
    kinds = _fields(body[20:])
    assert kinds[1] == b"bpf\0"
    options = _fields(kinds[2])
    program = [struct.unpack_from("=HBBI", options[5], 8 * k) for k in range(struct.unpack("=H", options[4])[0])]
    assert program[1] == (0x15, 0, 1, 0x7E570007) and program[2][3] == 0 and program[3][3] == WHOLE
    action = _fields(_fields(options[1])[1])
    assert action[1] == b"mirred\0"
    *_, redirect, through = struct.unpack("=IIiiiiI", _fields(action[2])[2])
    assert (redirect, through) == (1, 1000)
    priority = struct.unpack_from("=I", body, 16)[0] >> 16
    assert priority < struct.unpack_from("=I", drop_rule(7, 0.5)[2], 16)[0] >> 16
    assert detour_rule(7, mark=1, through=1000, action="remove")[0] == RTM_DELTFILTER
