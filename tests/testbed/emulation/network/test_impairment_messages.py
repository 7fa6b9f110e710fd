"""What the kernel is told for delayed and impaired links, field by field as linux/pkt_sched.h has them."""

from __future__ import annotations

import struct

from testbed.emulation.network.impairments.redirects import detour_rule
from testbed.emulation.network.kernel.queues import netem_line
from testbed.emulation.network.kernel.rtnetlink import RTM_DELTFILTER, drop_rule, tick_ns

WHOLE = 0xFFFFFFFF


def _fields(blob: bytes) -> dict[int, bytes]:
    found, at = {}, 0
    while at + 4 <= len(blob):
        size, kind = struct.unpack_from("=HH", blob, at)
        found[kind & 0x3FFF] = blob[at + 4 : at + size]
        at += size + 3 & ~3
    return found


def _netem(**options: float) -> tuple[tuple[int, ...], dict[int, bytes]]:
    """(tc_netem_qopt's six numbers, the attributes behind it)."""
    _, _, body = netem_line(7, **options)
    outer = _fields(body[20:])
    assert outer[1] == b"netem\0" and struct.unpack_from("=4xi", body)[0] == 7
    return struct.unpack_from("=6I", outer[2]), _fields(outer[2][24:])


def test_delay_and_jitter_are_told_in_ticks_and_in_nanoseconds() -> None:
    numbers, more = _netem(delay_s=0.03, jitter_s=0.005)
    assert numbers[0] == round(30e6 / tick_ns()) and numbers[5] == round(5e6 / tick_ns())
    assert struct.unpack("=q", more[10]) == (30_000_000,) and struct.unpack("=q", more[11]) == (
        5_000_000,
    )


def test_loss_is_a_share_of_all_ones() -> None:
    assert _netem(loss=0.5)[0][2] == round(0.5 * WHOLE)
    assert _netem()[0][2:6] == (0, 0, 0, 0)


def test_packets_go_on_a_detour_before_they_may_be_dropped_and_only_once() -> None:
    _, _, body = detour_rule(7, mark=0x7E570007, through=1000)
    kinds = _fields(body[20:])
    assert kinds[1] == b"bpf\0"
    options = _fields(kinds[2])
    program = [
        struct.unpack_from("=HBBI", options[5], 8 * k)
        for k in range(struct.unpack("=H", options[4])[0])
    ]
    assert program[1] == (0x15, 0, 1, 0x7E570007) and program[2][3] == 0 and program[3][3] == WHOLE
    action = _fields(_fields(options[1])[1])
    assert action[1] == b"mirred\0"
    *_, redirect, through = struct.unpack("=IIiiiiI", _fields(action[2])[2])
    assert (redirect, through) == (1, 1000)
    priority = struct.unpack_from("=I", body, 16)[0] >> 16
    assert priority < struct.unpack_from("=I", drop_rule(7, 0.5)[2], 16)[0] >> 16
    assert detour_rule(7, mark=1, through=1000, action="remove")[0] == RTM_DELTFILTER
