"""Figures of a trial over impaired links, estimated from draws in virtual time."""

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
# IP packets of the programs by their size: a workload's packets all have one.
PACKET_BYTES = {"voip": 200, "ping": 84, "udp": UDP_PAYLOAD_BYTES + 28}


@dataclass(frozen=True)
class Estimate:
    """A figure's mean over the draws, and how far one run may lie from it."""

    mean: float
    spread: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Estimate a figure from its values in the draws.

        The spread is half of a prediction interval for one more value (Student 1908): few draws
        tell little of how much a figure varies.
        """
        count = len(values)
        quantile = float(stdtrit(count - 1, 1 - _EXCEEDED / 2))
        deviation = float(np.std(values, ddof=1))
        return cls(float(np.mean(values)), quantile * math.sqrt(1 + 1 / count) * deviation)


class DrawnFigures:
    """Estimates for one rival: what the draws say of the packets that its run was offered."""

    def __init__(self, draws: Sequence[Draw], offered: Sequence[NDArray[np.void]]) -> None:
        self._draws = draws
        self._offered = offered
        self._packets = max(1, sum(len(records) for records in offered))
        self._bytes = max(1, sum(int(records["bytes"].sum()) for records in offered))

    def original_loss(self) -> Estimate:
        """Return the share of packets that the network loses, before the code."""
        return self._estimate(
            lambda draw: sum(direction.originals_lost for direction in draw) / self._packets
        )

    def lost(self) -> Estimate:
        """Return the number of packets that are never delivered, of both directions."""
        return self._estimate(lambda draw: sum(map(_lost, draw)))

    def wire_ratios(self) -> tuple[float, float]:
        """Return the least and the most bytes on the wire for each byte of the programs' packets."""
        ratios = [
            sum(direction.wire_bytes for direction in draw) / self._bytes for draw in self._draws
        ]
        return min(ratios), max(ratios)

    def lost_of(self, workload: str) -> Estimate:
        """Return the number of lost packets of ping (both directions) or udp."""
        return self._estimate(
            lambda draw: sum(
                _lost(direction, records["bytes"] == PACKET_BYTES[workload])
                for direction, records in zip(draw, self._offered, strict=True)
            )
        )

    def voice_opinion(self) -> Estimate:
        """Return the mean opinion score of the voice."""
        voice = self._offered[0]["bytes"] == PACKET_BYTES["voip"]
        return self._estimate(lambda draw: call_opinion(~(draw[0].delay_s[voice] <= PLAYOUT_S)))

    def damaged_frames(self) -> Estimate:
        """Return the number of frames that show an error.

        A packet that is lost, or comes after a later one, damages its frame and all that follow up to the
        next key frame.
        """
        records = self._offered[0]
        video = ~np.isin(records["bytes"], list(PACKET_BYTES.values()))
        sent_s = records["at_s"][video]
        begin_s = sent_s.min(initial=np.inf)

        def damaged(draw: Draw) -> int:
            broken = (np.isinf(draw[0].delay_s) | draw[0].disordered)[video]
            first = np.floor((sent_s[broken] - begin_s) * FRAMES_PER_S).astype(int)
            stop = (first // KEY_FRAME_EVERY + 1) * KEY_FRAME_EVERY
            frames: set[int] = set()
            for start, end in zip(first.tolist(), stop.tolist(), strict=True):
                frames.update(range(start, end))
            return len(frames)

        return self._estimate(damaged)

    def _estimate(self, figure: Callable[[Draw], float]) -> Estimate:
        return Estimate.of([figure(draw) for draw in self._draws])


def _lost(draw: DirectionDraw, which: NDArray[np.bool_] | None = None) -> int:
    delay_s = draw.delay_s if which is None else draw.delay_s[which]
    return int(np.isinf(delay_s).sum())
