"""Senders that are wrong on purpose: each breaks one rule that redundancy over requirements rests on, so that a judge
that lets one pass judges nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fec.protocol.sender import StreamSender
from fec.redundancy.labels import RandomLabels, StratifiedLabels
from testbed.stream.endpoints import build_sender, label_sequence
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.block_size_policy import block_size_policy

SizeRule = Callable[[int, float], int]
"""(N as the right sender would have it, time) -> N."""


class _Otherwise:
    """The right sender's control, with another N; ``late_parity`` None: as it has it."""

    def __init__(self, control: Any, size: SizeRule, late_parity: bool | None = None) -> None:
        self._control, self._size, self._late = control, size, late_parity

    def __getattr__(self, name: str) -> Any:
        return getattr(self._control, name)

    @property
    def late_parity(self) -> bool:
        return bool(self._control.late_parity if self._late is None else self._late)

    def block_size_at(self, at_s: float) -> int:
        return self._size(self._control.block_size_at(at_s), at_s)


def sender_with_size(
    size: Callable[[int], SizeRule], late_parity: bool | None = None
) -> Callable[[StreamPlan], StreamSender]:
    """``size``: the rule, given N at rest."""

    def built(plan: StreamPlan) -> StreamSender:
        sender = build_sender(plan)
        sender.control = _Otherwise(sender.control, size(block_size_policy(plan).base), late_parity)
        return sender

    return built


def sender_of_one_size(size: int) -> Callable[[StreamPlan], StreamSender]:
    """Takes this block size whatever happens."""
    return lambda plan: build_sender(replace(plan, stream=replace(plan.stream, block_size=size)))


def sender_with_labels(labels: Callable[[Any, int], int]) -> Callable[[StreamPlan], StreamSender]:
    """``labels``: (the right order, index of a packet) -> its label."""

    def built(plan: StreamPlan) -> StreamSender:
        sender, right = build_sender(plan), label_sequence(plan)
        sender._label_of = lambda index: labels(right, index)
        return sender

    return built


_GOLDEN, _RANDOM = StratifiedLabels(), RandomLabels(77)
WRONG_SENDERS: dict[str, Callable[[StreamPlan], StreamSender]] = {
    "N - 1 in answers": sender_with_size(lambda base: lambda n, at: n - 1 if n > base else n),
    "N - 1 always": sender_with_size(lambda base: lambda n, at: max(20, n - 1)),
    "N - 1, no late parity": sender_with_size(
        lambda base: lambda n, at: n - 1 if n > base else n, False
    ),
    "N - 2, no late parity": sender_with_size(
        lambda base: lambda n, at: n - 2 if n > base + 1 else n, False
    ),
    "N + 1 in answers": sender_with_size(lambda base: lambda n, at: n + 1 if n > base else n),
    "never raises N": sender_with_size(lambda base: lambda n, at: base),
    "never raises N, no late parity": sender_with_size(lambda base: lambda n, at: base, False),
    "always 40": sender_with_size(lambda base: lambda n, at: 40),
    "answers every second failure": sender_with_size(
        lambda base: lambda n, at: n if int(at / 4) % 2 else base
    ),
    "golden-ratio order": sender_with_labels(lambda right, index: _GOLDEN.label(index)),
    "random order": sender_with_labels(lambda right, index: _RANDOM.label(index)),
    "every label twice": sender_with_labels(lambda right, index: right.label(index // 2)),
    "one label for all": sender_with_labels(lambda right, index: 12345),
    "mirrored order": sender_with_labels(lambda right, index: 65535 - right.label(index)),
}
