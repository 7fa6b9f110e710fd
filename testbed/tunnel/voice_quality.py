"""Estimates how a voice call sounds from its lost packets (E-model, ITU-T G.107, 06/2015).

All parameters have the default values of G.107:

- R = Ro - Id - Ie_eff. Ro less the default impairments is 93.2 (G.107, table 2).
- Ie_eff = Ie + (95 - Ie) Ppl / (Ppl / BurstR + Bpl) (equation 7-29). For G.711 with packet loss
  concealment, Ie = 0 and Bpl = 25.1 (G.113, appendix I, table I.3).
- Id has only the part of the delay (Idd, equations 7-27 and 7-28, with sT = 1 and mT = 100 ms),
  because the call has no echo.

The opinion score follows from R (G.107, annex B).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# R of a call without loss and without a delay that users notice.
DEFAULT_R = 93.2
_IE = 0.0
_BPL = 25.1
# mT: shorter delays do not impair a call.
_SENSIBLE_MS = 100.0
# The delay from sending to playing a packet. A packet that arrives later is played as a lost one.
PLAYOUT_S = 0.1
_PACKETIZATION_MS = 20.0
# The opinion score for R = 80: users are satisfied (G.107, table B.1).
SATISFIED_MOS = 4.03


def rating(loss: float, burst_ratio: float, delay_ms: float) -> float:
    """Return the rating R of a call.

    Args:
        loss: Share of packets lost, 0 to 1.
        burst_ratio: Mean length of loss bursts over that of independent losses, at least 1.
        delay_ms: Delay from mouth to ear.

    >>> rating(0.0, 1.0, 50.0)
    93.2
    """
    percent = 100 * loss
    loss_impairment = _IE
    if percent:
        loss_impairment += (95 - _IE) * percent / (percent / burst_ratio + _BPL)
    delay_impairment = 0.0
    if delay_ms > _SENSIBLE_MS:
        x = math.log2(delay_ms / _SENSIBLE_MS)
        delay_impairment = 25 * ((1 + x**6) ** (1 / 6) - 3 * (1 + (x / 3) ** 6) ** (1 / 6) + 2)
    return DEFAULT_R - delay_impairment - loss_impairment


def opinion(r: float) -> float:
    """Return the mean opinion score, 1 to 4.5, of a rating.

    >>> round(opinion(93.2), 2), round(opinion(80.0), 2), opinion(-5.0)
    (4.41, 4.02, 1.0)
    """
    if r <= 0:
        return 1.0
    if r >= 100:
        return 4.5
    return 1 + 0.035 * r + r * (r - 60) * (100 - r) * 7e-6


def burst_ratio(lost: NDArray[np.bool_]) -> float:
    """Return the burst ratio (G.107, clause 7.6), at least 1.

    It is the mean length of the runs of lost packets, divided by the mean length if the same number
    were lost independently.

    Args:
        lost: Shape (packets,): whether each packet was lost, in the order of sending.
    """
    share = 0.0
    if len(lost):
        share = float(lost.mean())
    # A run begins where the mask steps from 0 to 1; the 0 in front finds a run at the beginning.
    steps = np.diff(np.concatenate(([0], lost.astype(np.int8))))
    runs = int(np.count_nonzero(steps == 1))
    if runs == 0 or share >= 1:
        return 1.0
    return max(1.0, float(lost.sum()) / runs * (1 - share))


def call_opinion(lost: NDArray[np.bool_]) -> float:
    """Return the opinion score of a call that is played ``PLAYOUT_S`` after it was sent.

    Args:
        lost: Shape (packets,): whether each packet was lost or late, in the order of sending. A
            call without packets counts as lost.
    """
    share = 1.0
    if len(lost):
        share = float(lost.mean())
    return opinion(rating(share, burst_ratio(lost), 1e3 * PLAYOUT_S + _PACKETIZATION_MS))


def opinions_over_time(
    sent_s: Sequence[float], delay_s: Sequence[float], step_s: float
) -> list[tuple[float, float]]:
    """Return the opinion score of the packets sent in each interval.

    Args:
        sent_s: When each packet was sent.
        delay_s: How long each packet took; infinite if it never arrived.
        step_s: Length of an interval.

    Returns:
        The middle of each interval (s) and the score, for intervals in which packets were sent.
    """
    at_s = np.asarray(sent_s)
    lost = ~(np.asarray(delay_s) <= PLAYOUT_S)
    intervals = np.floor(at_s / step_s).astype(int)
    scores = []
    for k in np.unique(intervals).tolist():
        scores.append((float((k + 0.5) * step_s), call_opinion(lost[intervals == k])))
    return scores
