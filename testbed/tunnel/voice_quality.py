"""How a voice call sounds, from what came of its packets: the E-model (ITU-T G.107, 06/2015) with default parameters.

R = Ro - Id - Ie_eff. Ro less the default impairments is 93.2 (G.107, table 2). Ie_eff = Ie + (95 - Ie) Ppl / (Ppl /
BurstR + Bpl) (equation 7-29), with Ie = 0 and Bpl = 25.1 of G.711 with packet loss concealment (G.113, appendix I,
table I.3). Id is the delay's part alone (Idd, equations 7-27 and 7-28, with sT = 1 and mT = 100 ms): the call has no
echo. The opinion score follows from R by G.107, annex B.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

DEFAULT_R, _IE, _BPL = 93.2, 0.0, 25.1
_SENSIBLE_MS = 100.0
PLAYOUT_S = 0.1
"""A packet that comes later is played as a lost one."""
_PACKETIZATION_MS = 20.0
SATISFIED_MOS = 4.03
"""Of R = 80: users are satisfied (G.107, table B.1)."""


def rating(loss: float, burst_ratio: float, delay_ms: float) -> float:
    """R of a share of packets lost (0 to 1), in bursts so many times as long as by chance, and the delay from mouth to
    ear.

    >>> rating(0.0, 1.0, 50.0)
    93.2
    """
    percent = 100 * loss
    lost = _IE + (95 - _IE) * percent / (percent / burst_ratio + _BPL) if percent else _IE
    late = 0.0
    if delay_ms > _SENSIBLE_MS:
        x = math.log2(delay_ms / _SENSIBLE_MS)
        late = 25 * ((1 + x**6) ** (1 / 6) - 3 * (1 + (x / 3) ** 6) ** (1 / 6) + 2)
    return DEFAULT_R - late - lost


def opinion(r: float) -> float:
    """Mean opinion score, 1 to 4.5, of a rating.

    >>> round(opinion(93.2), 2), round(opinion(80.0), 2), opinion(-5.0)
    (4.41, 4.02, 1.0)
    """
    if r <= 0:
        return 1.0
    return 4.5 if r >= 100 else 1 + 0.035 * r + r * (r - 60) * (100 - r) * 7e-6


def burst_ratio(lost: NDArray[np.bool_]) -> float:
    """Mean length of the runs of lost packets over that of as many lost by chance, 1 at least (G.107, clause 7.6)."""
    share = float(lost.mean()) if len(lost) else 0.0
    begins = int(np.count_nonzero(np.diff(np.concatenate(([0], lost.astype(np.int8)))) == 1))
    return max(1.0, float(lost.sum()) / begins * (1 - share)) if begins and share < 1 else 1.0


def call_opinion(lost: NDArray[np.bool_]) -> float:
    """The opinion of a call of packets in the order of sending, played ``PLAYOUT_S`` after they were sent."""
    share = float(lost.mean()) if len(lost) else 1.0
    return opinion(rating(share, burst_ratio(lost), 1e3 * PLAYOUT_S + _PACKETIZATION_MS))


def opinions_over_time(
    sent_s: Sequence[float], delay_s: Sequence[float], step_s: float
) -> list[tuple[float, float]]:
    """(middle of a time, opinion) of the packets sent in each of equal times; ``delay_s``: inf for what never came."""
    at, lost = np.asarray(sent_s), ~(np.asarray(delay_s) <= PLAYOUT_S)
    steps = np.floor(at / step_s).astype(int)
    return [
        (float((k + 0.5) * step_s), call_opinion(lost[steps == k]))
        for k in np.unique(steps).tolist()
    ]
