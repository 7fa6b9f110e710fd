"""Figures of a trial over impaired links, estimated from random draws in virtual time."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from testbed.tunnel.trial import FRAMES_PER_S, KEY_FRAME_EVERY, UDP_PAYLOAD_BYTES
from testbed.tunnel.virtual_time import DirectionDraw, Draw
from testbed.tunnel.voice_quality import PLAYOUT_S, call_opinion

# Probability that a run of a correct tunnel lies outside the spread.
_EXCEEDED = 0.005
# Size of a program's IP packets in bytes: all packets of one workload have the same size.
PACKET_BYTES = {"voip": 200, "ping": 84, "udp": UDP_PAYLOAD_BYTES + 28}


@dataclass(frozen=True)
class Estimate:
    """The mean of a figure over the draws, and how far one run may lie from it."""

    mean: float
    spread: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Estimate a figure from its values in the draws.

        The spread is half of a prediction interval for one more value (Student 1908), because a
        few draws say little about how much a figure varies.
        """
        count = len(values)
        quantile = float(stdtrit(count - 1, 1 - _EXCEEDED / 2))
        deviation = float(np.std(values, ddof=1))
        return cls(float(np.mean(values)), quantile * math.sqrt(1 + 1 / count) * deviation)


class DrawnFigures:
    """Estimates of one rival's figures, for the packets that its run was offered."""

    def __init__(self, draws: Sequence[Draw], offered: Sequence[NDArray[np.void]]) -> None:
        """Store the draws.

        Args:
            draws: The simulated deliveries, one element per draw.
            offered: The packets offered at the source and at the sink, as records of ``PACKETS``.
        """
        self._draws = draws
        self._offered = offered
        self._packets = max(1, sum(len(records) for records in offered))
        self._bytes = max(1, sum(int(records["bytes"].sum()) for records in offered))

    def original_loss(self) -> Estimate:
        """Return the share of packets that the network loses, before the code repairs them."""

        def loss(draw: Draw) -> float:
            return sum(direction.originals_lost for direction in draw) / self._packets

        return self._estimate(loss)

    def lost(self) -> Estimate:
        """Return the number of packets that are never delivered, in both directions together."""

        def lost_packets(draw: Draw) -> float:
            return sum(_lost(direction) for direction in draw)

        return self._estimate(lost_packets)

    def wire_ratios(self) -> tuple[float, float]:
        """Return the minimum and the maximum of wire bytes per byte of the programs' packets."""
        ratios = []
        for draw in self._draws:
            wire_bytes = sum(direction.wire_bytes for direction in draw)
            ratios.append(wire_bytes / self._bytes)
        return min(ratios), max(ratios)

    def lost_of(self, workload: str) -> Estimate:
        """Return the number of lost packets of ``ping`` (both directions) or ``udp``."""

        def lost_packets(draw: Draw) -> float:
            lost = 0
            for direction, records in zip(draw, self._offered, strict=True):
                lost += _lost(direction, records["bytes"] == PACKET_BYTES[workload])
            return lost

        return self._estimate(lost_packets)

    def voice_opinion(self) -> Estimate:
        """Return the mean opinion score of the voice."""
        is_voice = self._offered[0]["bytes"] == PACKET_BYTES["voip"]

        def score(draw: Draw) -> float:
            in_time = draw[0].delay_s[is_voice] <= PLAYOUT_S
            return call_opinion(~in_time)

        return self._estimate(score)

    def damaged_frames(self) -> Estimate:
        """Return the number of video frames that show an error.

        A packet that is lost, or arrives after a later one, damages its frame and all frames that
        follow up to the next key frame.
        """
        records = self._offered[0]
        is_video = ~np.isin(records["bytes"], list(PACKET_BYTES.values()))
        sent_s = records["at_s"][is_video]
        begin_s = sent_s.min(initial=np.inf)

        def damaged(draw: Draw) -> int:
            broken = (np.isinf(draw[0].delay_s) | draw[0].disordered)[is_video]
            first = np.floor((sent_s[broken] - begin_s) * FRAMES_PER_S).astype(int)
            next_key_frame = (first // KEY_FRAME_EVERY + 1) * KEY_FRAME_EVERY
            frames: set[int] = set()
            for start, stop in zip(first.tolist(), next_key_frame.tolist(), strict=True):
                frames.update(range(start, stop))
            return len(frames)

        return self._estimate(damaged)

    def _estimate(self, figure: Callable[[Draw], float]) -> Estimate:
        return Estimate.of([figure(draw) for draw in self._draws])


def _lost(draw: DirectionDraw, selected: NDArray[np.bool_] | None = None) -> int:
    """Return the number of lost packets in one direction, among all or the selected packets."""
    delay_s = draw.delay_s
    if selected is not None:
        delay_s = delay_s[selected]
    return int(np.isinf(delay_s).sum())
