"""How many packets a block needs: FEC_p of the thesis for random losses, and an exact bound for stratified labels.

Theory of operation. A block of M source packets is sent as N packets and decodes from any M of them. There are two
answers to the question how large N has to be when a fraction p of the packets is lost.

*Random losses.* Each packet is lost with probability p by itself, so that n of N are lost with the binomial probability
of Gabrielyan 2007, eq. 24. A block fails when fewer than M arrive: delta, the sum over n > N - M (eq. 25). FEC_p is the
smallest N at which delta is at most the decoding error rate DER. Equations 26 and 27 (M = 1: p^N = DER) and equation 28
(N/M tends to 1/(1 - p) as M grows) are its limits; the tests hold ``fec_block_size`` against both.

*Stratified labels.* Where the sender chooses its labels in an order that covers the label space evenly
(``fec.redundancy.labels``) and a broken link takes certain intervals of labels, nothing is random: which packets of a
block are lost follows from the index of its first label. ``stratified_block_size`` is the smallest N of which M arrive
in every window of N consecutive labels, so that no block ever fails. It is between ceil(M / (1 - p)) and FEC_p as a
rule.

The reverse question is answered here as well: after how many packets a loss is known to a given precision.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from numbers import Integral, Rational
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from fec.errors import FecError
from fec.redundancy.labels import LABELS, WEYL_MULTIPLIER, LabelRule, label_table

Interval = tuple[int, int]
"""Half-open range [start, stop) of labels."""
UNBOUNDED = 1 << 40
"""N of an order in which nothing arrives, where a number must stand."""
LONGEST = 10**9
"""Packets of a block that are reckoned with; codes have 56,403 source packets at most."""


def as_fraction(value: float | Fraction | str, what: str) -> Fraction:
    """The number that is meant: a float stands for its shortest decimal, so that 0.1 is one tenth.

    >>> as_fraction(0.1, "loss")
    Fraction(1, 10)
    """
    try:
        return (
            Fraction(value) if isinstance(value, Rational | str) else Fraction(repr(float(value)))
        )
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        raise FecError(f"{what} {value!r} is not a finite number") from None


def fec_block_size(
    source_packets: int, loss: float | Fraction | str, decoding_error_rate: float | Fraction | str
) -> int:
    """FEC_p: the smallest block size N at which M of N packets arrive but for the decoding error rate
    (Gabrielyan 2007, eq. 24 and 25).

    Exact: decided in integers wherever floating point is near the boundary. ``loss`` is the probability p of losing a
    packet, 0 <= p < 1; FecError for p >= 1 (no N suffices), an error rate outside (0, 1), or M < 1.
    Cost: O(M log N), remembered for repeated questions.

    >>> fec_block_size(20, 0.1, 1e-5), fec_block_size(1, 0.1, 1e-5)
    (32, 5)
    """
    return _block_size(
        source_packets, *_checked(source_packets, loss), _checked_rate(decoding_error_rate)
    )


def decoding_failure_probability(
    source_packets: int, block_size: int, loss: float | Fraction | str
) -> Fraction:
    """Exact probability that fewer than M of N packets arrive at independent loss p: delta of Gabrielyan 2007, eq. 25.

    >>> decoding_failure_probability(1, 2, 0.1)
    Fraction(1, 100)
    """
    lost, whole = _checked(source_packets, loss)
    if block_size < source_packets:
        return Fraction(1)
    return Fraction(
        _failing_combinations(source_packets, block_size, lost, whole), whole**block_size
    )


def stratified_block_size(
    intervals: Sequence[Interval], source_packets: int, rule: LabelRule = WEYL_MULTIPLIER
) -> int:
    """Smallest N such that of *every* N consecutive stratified labels at least M lie outside the intervals.

    ``intervals``: half-open label ranges, the ones that a failed link carried. Exact over all offsets of the order, so
    a block of N packets always decodes while that link is down. FecError where the intervals cover every label. Cost:
    one pass over the label space.

    >>> stratified_block_size([(0, 32768)], 20)
    42
    """
    found = block_size_of_order(intervals, source_packets, rule)
    if found is None:
        raise FecError(
            "the intervals cover every label: nothing arrives while this link is down, no N suffices"
        )
    return found


def block_size_of_order(
    intervals: Sequence[Interval], source_packets: int, rule: LabelRule
) -> int | None:
    """The same; None where the order, which may leave labels out, has none outside the intervals."""
    _check_source_packets(source_packets)
    return _worst_window(tuple((start, stop) for start, stop in intervals), source_packets, rule)


@lru_cache(maxsize=4096)
def _worst_window(
    intervals: tuple[Interval, ...], source_packets: int, rule: LabelRule
) -> int | None:
    lost = _on_link(intervals, rule)
    survivors = np.flatnonzero(~lost)
    if not len(survivors):
        return None
    # the longest window with M - 1 survivors reaches from just after one survivor to just before the M-th after it
    rounds, rest = divmod(source_packets, len(survivors))
    reached = np.concatenate((survivors[rest:], survivors[:rest] + len(lost))) + len(lost) * rounds
    return int((reached - survivors).max())


def stratified_tolerance_block_size(
    tolerance: float | Fraction | str, source_packets: int, multiplier: int = WEYL_MULTIPLIER
) -> int:
    """``stratified_block_size`` for one interval of share ``tolerance``, the worst over all its 65,536 positions, of an
    order by a multiplier.

    Such labels are multiples of an odd number, so moving the interval only moves the offset of the window: one
    position (judged over all offsets) stands for all. FecError for a tolerance outside [0, 1).

    >>> stratified_tolerance_block_size(0.05, 20)
    22
    """
    share = as_fraction(tolerance, "tolerance")
    if not 0 <= share < 1:
        raise FecError(
            f"tolerance {tolerance!r}: give a fraction of the packets, from 0 to below 1"
        )
    _check_source_packets(source_packets)
    return stratified_block_size([(0, math.ceil(share * LABELS))], source_packets, multiplier)


def window_share_error(
    intervals: Sequence[Interval], window: int, rule: LabelRule = WEYL_MULTIPLIER
) -> float:
    """Largest difference between the intervals' share of ``window`` consecutive stratified labels and their exact
    share.

    Over all offsets of the order: a loss measured over that many packets of a cut link errs by no more.

    >>> window_share_error([(0, 32768)], 65536)
    0.0
    """
    if window < 1:
        raise FecError(f"window {window}: give a number of packets from 1")
    lost = _on_link(intervals, rule)
    share = sum(stop - start for start, stop in intervals) / LABELS
    return _worst_excess(_running_excess(lost), window) / window + abs(float(lost.mean()) - share)


def order_share(intervals: Sequence[Interval], rule: LabelRule = WEYL_MULTIPLIER) -> float:
    """The part of an order's packets whose labels lie in the intervals: their share of the labels, where the order
    takes all of them.

    >>> order_share([(0, 32768)])
    0.5
    """
    return float(_on_link(intervals, rule).mean())


def stratified_window_for(
    intervals: Sequence[Interval], precision: float, rule: LabelRule = WEYL_MULTIPLIER
) -> int:
    """Smallest W such that *every* window of W or more packets tells the intervals' share within ``precision``.

    Exact: walks down from where the excess over the whole label space bounds all longer windows, skipping windows that
    cannot be the last bad one (one packet more or less moves the excess by at most one).
    """
    if not precision > 0:
        raise FecError(f"precision {precision!r}: give a fraction of loss above 0, such as 0.01")
    excess = _running_excess(_on_link(intervals, rule))
    bound = float(excess.max() - excess.min())
    window = max(1, math.ceil(bound / precision))
    while window >= 1:
        slack = precision * window - _worst_excess(excess, window)
        if slack < -1e-9:
            return window + 1
        window -= max(1, math.floor(slack / (1 + precision)))
    return 1


def binomial_window_for(loss: float | Fraction, precision: float, confidence: float = 0.99) -> int:
    """Packets after which an independent loss is known within ``precision`` (one side) at the given confidence.

    The normal approximation, and where loss is near 0 or 1 what it takes for a deviation of ``precision`` to show at
    all.

    >>> binomial_window_for(0.5, 0.01)
    16588
    """
    share = float(loss)
    if not 0 <= share <= 1 or not precision > 0 or not 0 < confidence < 1:
        raise FecError(
            f"loss {loss!r}, precision {precision!r}, confidence {confidence!r}: 0..1, above 0, within (0, 1)"
        )
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    normal = z * z * share * (1 - share) / (precision * precision)
    return max(1, math.ceil(normal), math.ceil(-math.log(1 - confidence) / precision))


def binomial_interval(lost: int, sent: int, confidence: float = 0.99) -> tuple[float, float]:
    """Clopper-Pearson interval of the loss probability after ``lost`` of ``sent`` packets: never covers less than
    asked.

    >>> low, high = binomial_interval(0, 100, 0.95)
    >>> low, round(high, 4)
    (0.0, 0.0362)
    """
    if not 0 <= lost <= sent or sent < 1 or not 0 < confidence < 1:
        raise FecError(
            f"{lost} lost of {sent} sent at confidence {confidence!r}: give 0 <= lost <= sent, sent >= 1"
        )
    from scipy.special import (
        betaincinv,
    )  # scipy takes a while to import and most users never get here

    tail = (1 - confidence) / 2
    low = float(betaincinv(lost, sent - lost + 1, tail)) if lost else 0.0
    high = float(betaincinv(lost + 1, sent - lost, 1 - tail)) if lost < sent else 1.0
    return low, high


def _check_source_packets(source_packets: int) -> None:
    if not isinstance(source_packets, (int, Integral)) or source_packets < 1:
        raise FecError(
            f"source_packets {source_packets!r}: a block has a whole number of them, at least 1"
        )


def _checked(source_packets: int, loss: float | Fraction | str) -> tuple[int, int]:
    """Loss as numerator and denominator."""
    _check_source_packets(source_packets)
    p = as_fraction(loss, "loss")
    if p < 0:
        raise FecError(f"loss {loss!r} is negative; give a probability from 0 to below 1")
    if p >= 1:
        raise FecError(
            f"loss {loss!r}: where every packet is lost no block size suffices (infinite)"
        )
    return p.numerator, p.denominator


def _checked_rate(decoding_error_rate: float | Fraction | str) -> Fraction:
    rate = as_fraction(decoding_error_rate, "decoding error rate")
    if not 0 < rate < 1:
        raise FecError(
            f"decoding error rate {decoding_error_rate!r} is not between 0 and 1 (exclusive), such as 1e-5"
        )
    return rate


@lru_cache(maxsize=65536)
def _block_size(m: int, lost: int, whole: int, rate: Fraction) -> int:
    """Doubling, then bisection: the failure probability falls with N."""

    def suffices(n: int) -> bool:
        return not _fails_too_often(m, n, lost, whole, rate)

    if m * whole > LONGEST * (whole - lost):
        raise FecError(
            f"loss {lost / whole:.12g}: blocks of more than {LONGEST:g} packets; no code has such"
        )
    high = m
    while not suffices(high):
        high *= 2
    return bisect_left(range(high), True, lo=max(m, high // 2), key=suffices)


def _fails_too_often(m: int, n: int, lost: int, whole: int, rate: Fraction) -> bool:
    """Whether delta of Gabrielyan 2007, eq. 25, is above DER: by logarithms where that is clear, else in integers."""
    if lost == 0:
        return False
    gap = _log_failure(m, n, lost, whole) - (math.log(rate.numerator) - math.log(rate.denominator))
    # some hundred times what rounding adds up to: a few ulps of log delta itself and of m sums of logarithms below 100
    if abs(gap) > 1e-12 * (100 + m):
        return gap > 0
    return bool(
        _failing_combinations(m, n, lost, whole) * rate.denominator > rate.numerator * whole**n
    )


def _log_failure(m: int, n: int, lost: int, whole: int) -> float:
    """Natural logarithm of P(at most m - 1 of n arrive), by floating point."""
    log_whole = math.log(whole)
    log_p, log_q = math.log(lost) - log_whole, math.log(whole - lost) - log_whole
    if 2 * lost > whole:
        log_p = math.log1p(-((whole - lost) / whole))
    else:
        log_q = math.log1p(-(lost / whole))
    log_combinations, terms = 0.0, []
    for k in range(m):
        terms.append(log_combinations + k * log_q + (n - k) * log_p)
        log_combinations += math.log(n - k) - math.log(k + 1)
    largest = max(terms)
    return largest + math.log(math.fsum(math.exp(t - largest) for t in terms))


def _failing_combinations(m: int, n: int, lost: int, whole: int) -> int:
    """P(at most m - 1 of n arrive) times whole^n, an integer: sum over k arriving of C(n,k) (whole-lost)^k
    lost^(n-k)."""
    retained = whole - lost
    if lost == 0:
        return 0
    # Horner from k = m - 1 down: lost^(n-m+1) * sum over k of C(n,k) kept^k lost^(m-1-k)
    total, power = 0, 1
    for k in range(m):
        total = total * lost + math.comb(n, k) * power
        power *= retained
    return int(total * lost ** (n - m + 1))


def _on_link(intervals: Sequence[Interval], rule: LabelRule) -> NDArray[np.bool_]:
    """For each packet of one period of the order whether its label is in the intervals; bool of shape (period,)."""
    inside = np.zeros(LABELS, dtype=np.bool_)
    for start, stop in intervals:
        if not 0 <= start <= stop <= LABELS:
            raise FecError(f"label interval [{start}, {stop}) is not within [0, {LABELS})")
        inside[start:stop] = True
    return np.asarray(inside[label_table(rule)], dtype=np.bool_)


def _running_excess(lost: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Losses among the first i packets of a period, less their share of i; float64 of shape (period,), periodic."""
    hits, period = np.cumsum(lost, dtype=np.int64), len(lost)
    before = np.concatenate(([0], hits[:-1]))
    # in parts of the period, so that the differences are exact
    return np.asarray(
        (before * period - np.arange(period) * int(hits[-1])) / period, dtype=np.float64
    )


def _worst_excess(excess: NDArray[np.float64], window: int) -> float:
    """Largest |losses in a window - share * window| over all offsets."""
    return float(np.abs(np.roll(excess, -(window % len(excess))) - excess).max())
