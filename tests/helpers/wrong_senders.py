"""Senders that break one rule each, so that a judge can be shown to fail every one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fec.protocol.sender import StreamSender
from fec.redundancy.labels import RandomLabels, StratifiedLabels
from testbed.stream.endpoints import build_sender, label_sequence
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.block_size_policy import block_size_policy

# Returns the wrong N from N without failures, the right N, and the time in seconds.
SizeRule = Callable[[int, int, float], int]
# Returns the wrong label from the right order of labels and the index of a packet.
LabelRule = Callable[[Any, int], int]
SenderBuilder = Callable[[StreamPlan], StreamSender]

_GOLDEN_RATIO_LABELS = StratifiedLabels()
_RANDOM_LABELS = RandomLabels(77)


class _WrongControl:
    """The control of a right sender, except for N and late parity."""

    def __init__(
        self, control: Any, size_rule: SizeRule, base: int, late_parity: bool | None
    ) -> None:
        self._control = control
        self._size_rule = size_rule
        self._base = base
        self._late_parity = late_parity

    def __getattr__(self, name: str) -> Any:
        return getattr(self._control, name)

    @property
    def late_parity(self) -> bool:
        if self._late_parity is None:
            return bool(self._control.late_parity)
        return self._late_parity

    def block_size_at(self, at_s: float) -> int:
        return self._size_rule(self._base, self._control.block_size_at(at_s), at_s)


def sender_with_size(size_rule: SizeRule, late_parity: bool | None = None) -> SenderBuilder:
    """Return a builder of senders with the wrong N.

    Args:
        size_rule: Gives the wrong N.
        late_parity: Whether the sender sends late parity. None stands for the right choice.
    """

    def build(plan: StreamPlan) -> StreamSender:
        sender = build_sender(plan)
        base = block_size_policy(plan).base
        sender.control = _WrongControl(sender.control, size_rule, base, late_parity)
        return sender

    return build


def sender_of_one_size(size: int) -> SenderBuilder:
    """Return a builder of senders that never change N."""

    def build(plan: StreamPlan) -> StreamSender:
        return build_sender(replace(plan, stream=replace(plan.stream, block_size=size)))

    return build


def sender_with_labels(label_rule: LabelRule) -> SenderBuilder:
    """Return a builder of senders with the wrong labels."""

    def build(plan: StreamPlan) -> StreamSender:
        sender = build_sender(plan)
        right_labels = label_sequence(plan)

        def label_of(index: int) -> int:
            return label_rule(right_labels, index)

        sender._label_of = label_of
        return sender

    return build


def _one_less_in_answers(base: int, n: int, at_s: float) -> int:
    return n - 1 if n > base else n


def _two_less_in_answers(base: int, n: int, at_s: float) -> int:
    return n - 2 if n > base + 1 else n


def _one_more_in_answers(base: int, n: int, at_s: float) -> int:
    return n + 1 if n > base else n


def _one_less(base: int, n: int, at_s: float) -> int:
    return max(20, n - 1)


def _never_raised(base: int, n: int, at_s: float) -> int:
    return base


def _always_40(base: int, n: int, at_s: float) -> int:
    return 40


def _raised_every_second_time(base: int, n: int, at_s: float) -> int:
    return n if int(at_s / 4) % 2 else base


def _golden_ratio_label(right_labels: Any, index: int) -> int:
    return _GOLDEN_RATIO_LABELS.label(index)


def _random_label(right_labels: Any, index: int) -> int:
    return _RANDOM_LABELS.label(index)


def _label_used_twice(right_labels: Any, index: int) -> int:
    return int(right_labels.label(index // 2))


def _constant_label(right_labels: Any, index: int) -> int:
    return 12345


def _mirrored_label(right_labels: Any, index: int) -> int:
    return 65535 - int(right_labels.label(index))


WRONG_SENDERS: dict[str, SenderBuilder] = {
    "N - 1 in answers": sender_with_size(_one_less_in_answers),
    "N - 1 always": sender_with_size(_one_less),
    "N - 1, no late parity": sender_with_size(_one_less_in_answers, late_parity=False),
    "N - 2, no late parity": sender_with_size(_two_less_in_answers, late_parity=False),
    "N + 1 in answers": sender_with_size(_one_more_in_answers),
    "never raises N": sender_with_size(_never_raised),
    "never raises N, no late parity": sender_with_size(_never_raised, late_parity=False),
    "always 40": sender_with_size(_always_40),
    "answers every second failure": sender_with_size(_raised_every_second_time),
    "golden-ratio order": sender_with_labels(_golden_ratio_label),
    "random order": sender_with_labels(_random_label),
    "every label twice": sender_with_labels(_label_used_twice),
    "one label for all": sender_with_labels(_constant_label),
    "mirrored order": sender_with_labels(_mirrored_label),
}
