"""What the kernel is told for an impaired link: a netem queue, or the rule that sends a link's packets on a detour
(rtnetlink messages)."""

import struct
from dataclasses import dataclass
from typing import Literal

from testbed.emulation.network.kernel.rtnetlink import (
    CLSACT_EGRESS,
    Message,
    attribute,
    bpf_rule,
    new_queue,
    remove_bpf_rule,
    text,
    tick_ns,
)
from topologies.impairments import (
    Duplication,
    ExtraDelay,
    GilbertElliott,
    Impairments,
    RandomLoss,
)

NETEM_CHILD = 0x10001
"""The queue behind a netem queue."""
DETOUR_PRIORITY = 1
"""Before the rule that drops packets (2): a packet that comes back from its detour may still be dropped, once."""
_WHOLE = 0xFFFFFFFF
_NESTED = 0x8000
_LIMIT_PACKETS = 100_000


@dataclass(frozen=True, kw_only=True)
class NetemOptions:
    """What one netem queue does. ``chain``: Gilbert-Elliott instead of ``loss``."""

    delay_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0
    chain: GilbertElliott | None = None
    duplicate: float = 0.0


def netem_options(impairments: Impairments, link_delay_s: float = 0.0) -> NetemOptions | None:
    """The queue that does what the words say behind a link's own delay; None where no single one does.

    One loss or chain, or one duplication (netem draws both for a packet at once), and one delay after it. No
    reordering: a packet that netem lets overtake skips the queue behind it as well, so that it would not be held to the
    link's capacity.

    >>> from topologies.impairments import parse_impairments
    >>> netem_options(parse_impairments("loss:0.1 delay:0.02,jitter=0.01"))
    NetemOptions(delay_s=0.02, jitter_s=0.01, loss=0.1, chain=None, duplicate=0.0)
    >>> netem_options(parse_impairments("jitter:0.01 jitter:0.02")) is None
    True
    """
    thinning = [one for one in impairments if isinstance(one, (RandomLoss, GilbertElliott, Duplication))]
    holding = [one for one in impairments if isinstance(one, ExtraDelay)]
    in_order = (*thinning, *holding) == impairments
    if len(thinning) > 1 or len(holding) > 1 or not in_order:
        return None
    first, last = next(iter(thinning), None), next(iter(holding), None)
    return NetemOptions(
        delay_s=link_delay_s + (last.mean_s if last is not None else 0.0),
        jitter_s=last.jitter_s if last is not None else 0.0,
        loss=first.fraction if isinstance(first, RandomLoss) else 0.0,
        chain=first if isinstance(first, GilbertElliott) else None,
        duplicate=first.fraction if isinstance(first, Duplication) else 0.0,
    )


def netem_line(index: int, options: NetemOptions) -> Message:
    """The netem queue, as the interface's root queue 1:; a shaper may follow at parent 1:1. One that is there is
    changed in place."""
    ticks, jitter_ticks = (min(_WHOLE, round(s * 1e9 / tick_ns())) for s in (options.delay_s, options.jitter_s))
    body = struct.pack(
        "=6I",
        ticks,
        _LIMIT_PACKETS,
        round(options.loss * _WHOLE),
        0,
        round(options.duplicate * _WHOLE),
        jitter_ticks,
    )
    body += attribute(10, struct.pack("=q", round(options.delay_s * 1e9)))
    body += attribute(11, struct.pack("=q", round(options.jitter_s * 1e9)))
    chain = options.chain
    if chain is not None:  # netem takes h, the share that survives the bad state
        values = (chain.p, chain.r, 1 - chain.bad_loss, chain.good_loss)
        body += attribute(5 | _NESTED, attribute(2, struct.pack("=4I", *(round(v * _WHOLE) for v in values))))
    return new_queue(index, "netem", body, handle=0x10000)


def detour_rule(index: int, *, mark: int, through: int, action: Literal["add", "remove"] = "add") -> Message:
    """Send what the interface sends out of the interface ``through`` instead, but for packets with that mark: those
    have been there.

    A classic BPF classifier and a redirecting action, at the interface's hook before its queues (clsact); ordinary
    users may set both in namespaces of their own, which they may not do with extended BPF programs.
    """
    if action == "remove":
        return remove_bpf_rule(index, CLSACT_EGRESS, DETOUR_PRIORITY)
    load_word, jump_if_equal, answer = 0x20, 0x15, 0x06
    ancillary_mark, no_match, match = 0xFFFFF000 + 20, 0, 0xFFFFFFFF
    steps = (
        (load_word, 0, 0, ancillary_mark),
        (jump_if_equal, 0, 1, mark),
        (answer, 0, 0, no_match),
        (answer, 0, 0, match),
    )
    stolen, redirect = 4, 1
    target = struct.pack("=IIiiiiI", 0, 0, stolen, 0, 0, redirect, through)
    mirred = attribute(1, text(1, "mirred") + attribute(2 | _NESTED, attribute(2, target)))
    return bpf_rule(index, CLSACT_EGRESS, DETOUR_PRIORITY, steps, attribute(1 | _NESTED, mirred))
