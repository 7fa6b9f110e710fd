"""Block sizes: FEC_p of the thesis for random losses, and an exact bound for stratified labels.

Theory of operation. A block of M source packets is sent as N packets and can be decoded from any M
of them. There are two answers to the question how large N has to be if a fraction p of the packets
is lost.

*Random losses.* Each packet is lost independently with probability p, so that the number n of lost
packets has the binomial distribution of Gabrielyan 2007, eq. 24. Decoding fails if fewer than M
packets arrive. The probability delta of a failure is the sum over n > N - M (eq. 25). FEC_p is the
smallest N at which delta is at most the decoding error rate DER. Equations 26 and 27 (M = 1:
p^N = DER) and equation 28 (N/M tends to 1/(1 - p) as M grows) are its limits; the tests compare
``fec_block_size`` with both.

*Stratified labels.* The sender chooses its labels in an order that covers the label space evenly
(``fec.redundancy.labels``), and a failed link takes certain intervals of labels. Then nothing is
random: the index of its first label determines which packets of a block are lost.
``stratified_block_size`` is the smallest N such that M packets arrive in every window of N
consecutive labels, so that decoding never fails. It usually lies between ceil(M / (1 - p)) and
FEC_p.

This module also answers the reverse question: after how many packets a loss is known to a given
precision.
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

#: Half-open range [start, stop) of labels.
Interval = tuple[int, int]
#: Stands for an infinite block size where an integer is required: no packet arrives.
UNBOUNDED = 1 << 40
#: Largest block size that is computed. It exceeds that of all codes, which have at most 56,403
#: source packets per block.
LONGEST = 10**9


def as_fraction(value: float | Fraction | str, name: str) -> Fraction:
    """Return a number as an exact fraction.

    A float stands for its shortest decimal representation, so that 0.1 is one tenth.

    Args:
        value: The number.
        name: What the number is, for the error message.

    Raises:
        FecError: The value is not a finite number.

    >>> as_fraction(0.1, "loss")
    Fraction(1, 10)
    """
    try:
        if isinstance(value, Rational | str):
            return Fraction(value)
        return Fraction(repr(float(value)))
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        raise FecError(f"{name} {value!r} is not a finite number") from None


def fec_block_size(
    source_packets: int, loss: float | Fraction | str, decoding_error_rate: float | Fraction | str
) -> int:
    """Return FEC_p, the smallest block size for independent losses (Gabrielyan 2007, eq. 24, 25).

    It is the smallest N such that fewer than M of N packets arrive no more often than the decoding
    error rate. The result is exact: it is decided in integers if floating point is near the
    boundary. It takes O(M log N) operations and is cached.

    Args:
        source_packets: M, the number of packets that are needed to decode a block.
        loss: Probability of losing a packet, 0 <= p < 1.
        decoding_error_rate: Accepted probability that decoding fails, between 0 and 1.

    Raises:
        FecError: A value is outside its range.

    >>> fec_block_size(20, 0.1, 1e-5), fec_block_size(1, 0.1, 1e-5)
    (32, 5)
    """
    p = _checked_loss(source_packets, loss)
    rate = _checked_rate(decoding_error_rate)
    return _block_size(source_packets, p.numerator, p.denominator, rate)


def decoding_failure_probability(
    source_packets: int, block_size: int, loss: float | Fraction | str
) -> Fraction:
    """Return the exact probability that decoding fails (delta of Gabrielyan 2007, eq. 25).

    Args:
        source_packets: M, the number of packets that are needed to decode a block.
        block_size: N, the number of packets that are sent.
        loss: Probability of losing a packet, independently of the others.

    Raises:
        FecError: A value is outside its range.

    >>> decoding_failure_probability(1, 2, 0.1)
    Fraction(1, 100)
    """
    p = _checked_loss(source_packets, loss)
    if block_size < source_packets:
        return Fraction(1)
    failing = _failing_combinations(source_packets, block_size, p.numerator, p.denominator)
    return Fraction(failing, p.denominator**block_size)


def stratified_block_size(
    intervals: Sequence[Interval], source_packets: int, rule: LabelRule = WEYL_MULTIPLIER
) -> int:
    """Return the smallest N that can always be decoded while a link with these labels is down.

    Of *every* N consecutive labels of the order, at least M lie outside the intervals. The result
    is exact over all offsets of the order. It takes one pass over the label space.

    Args:
        intervals: Half-open label ranges that the failed link carried.
        source_packets: M, the number of packets that are needed to decode a block.
        rule: The rule of the order of labels.

    Raises:
        FecError: The intervals cover every label.

    >>> stratified_block_size([(0, 32768)], 20)
    42
    """
    block_size = block_size_of_order(intervals, source_packets, rule)
    if block_size is None:
        raise FecError(
            "the intervals cover every label: nothing arrives while this link is down,"
            " no N suffices"
        )
    return block_size


def block_size_of_order(
    intervals: Sequence[Interval], source_packets: int, rule: LabelRule
) -> int | None:
    """Return ``stratified_block_size``, or None if no label of the order is outside the intervals.

    This can happen although other labels exist: an order of slots (``LabelRule``) does not use all
    labels.
    """
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
    # The longest window with M - 1 survivors reaches from just after one survivor to just before
    # the M-th after it.
    rounds, steps = divmod(source_packets, len(survivors))
    following = np.concatenate((survivors[steps:], survivors[:steps] + len(lost)))
    reached = following + len(lost) * rounds
    return int((reached - survivors).max())


def stratified_tolerance_block_size(
    tolerance: float | Fraction | str, source_packets: int, multiplier: int = WEYL_MULTIPLIER
) -> int:
    """Return the smallest N that tolerates the loss of one interval, wherever it lies.

    The labels are multiples of an odd number, so that moving the interval only moves the offset of
    the window. One position, judged over all offsets, represents all 65,536 positions.

    Args:
        tolerance: The interval's share of the labels, from 0 to below 1.
        source_packets: M, the number of packets that are needed to decode a block.
        multiplier: The multiplier of the order of labels.

    Raises:
        FecError: The tolerance is outside its range.

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
    """Return the largest error of a loss that is measured over ``window`` packets.

    It is the largest difference, over all offsets of the order, between the share of ``window``
    consecutive labels that lie in the intervals, and the share of all labels that do. For an order
    that does not use all labels, it is an upper bound.

    Args:
        intervals: Half-open label ranges that a failed link carries.
        window: Number of packets, from 1.
        rule: The rule of the order of labels.

    Raises:
        FecError: The window is below 1.

    >>> window_share_error([(0, 32768)], 65536)
    0.0
    """
    if window < 1:
        raise FecError(f"window {window}: give a number of packets from 1")
    lost = _on_link(intervals, rule)
    share = sum(stop - start for start, stop in intervals) / LABELS
    return _worst_excess(_running_excess(lost), window) / window + abs(float(lost.mean()) - share)


def order_share(intervals: Sequence[Interval], rule: LabelRule = WEYL_MULTIPLIER) -> float:
    """Return the fraction of an order's packets whose labels lie in the intervals.

    It equals the intervals' share of the labels if the order uses all labels.

    >>> order_share([(0, 32768)])
    0.5
    """
    return float(_on_link(intervals, rule).mean())


def stratified_window_for(
    intervals: Sequence[Interval], precision: float, rule: LabelRule = WEYL_MULTIPLIER
) -> int:
    """Return the number of packets after which a stratified loss is known to a precision.

    It is the smallest W such that *every* window of W or more consecutive packets measures the loss
    within ``precision``. The search is exact. It begins with a window that is certainly long
    enough, and goes down to the first window that is too short. It skips windows that cannot be too
    short, because one packet more or less changes the number of excess losses by at most one.

    Args:
        intervals: Half-open label ranges that a failed link carries.
        precision: Accepted error of the loss, above 0.
        rule: The rule of the order of labels.

    Raises:
        FecError: The precision is not above 0.
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
    """Return the number of packets after which an independent loss is known to a precision.

    This is the normal approximation. If the loss is near 0 or 1, it is the number of packets of
    which at least one is lost, with this confidence, if the loss is ``precision``.

    Args:
        loss: The loss, 0 to 1.
        precision: Accepted error of the loss on either side, above 0.
        confidence: Probability that the error is not larger, between 0 and 1.

    Raises:
        FecError: A value is outside its range.

    >>> binomial_window_for(0.5, 0.01)
    16588
    """
    share = float(loss)
    if not 0 <= share <= 1 or not precision > 0 or not 0 < confidence < 1:
        raise FecError(
            f"loss {loss!r}, precision {precision!r}, confidence {confidence!r}:"
            " 0..1, above 0, within (0, 1)"
        )
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    normal = z * z * share * (1 - share) / (precision * precision)
    return max(1, math.ceil(normal), math.ceil(-math.log(1 - confidence) / precision))


def binomial_interval(lost: int, sent: int, confidence: float = 0.99) -> tuple[float, float]:
    """Return the Clopper-Pearson interval of a loss probability.

    It contains the true probability at least as often as ``confidence`` says.

    Args:
        lost: Number of packets lost.
        sent: Number of packets sent.
        confidence: Between 0 and 1.

    Returns:
        The lower and the upper limit.

    Raises:
        FecError: A value is outside its range.

    >>> low, high = binomial_interval(0, 100, 0.95)
    >>> low, round(high, 4)
    (0.0, 0.0362)
    """
    if not 0 <= lost <= sent or sent < 1 or not 0 < confidence < 1:
        raise FecError(
            f"{lost} lost of {sent} sent at confidence {confidence!r}:"
            " give 0 <= lost <= sent, sent >= 1"
        )
    # scipy takes a while to import, and few callers need it.
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    low = float(betaincinv(lost, sent - lost + 1, tail)) if lost else 0.0
    high = float(betaincinv(lost + 1, sent - lost, 1 - tail)) if lost < sent else 1.0
    return low, high


def _check_source_packets(source_packets: int) -> None:
    if not isinstance(source_packets, (int, Integral)) or source_packets < 1:
        raise FecError(
            f"source_packets {source_packets!r}: a block has a whole number of them, at least 1"
        )


def _checked_loss(source_packets: int, loss: float | Fraction | str) -> Fraction:
    """Check both values, and return the loss as an exact fraction."""
    _check_source_packets(source_packets)
    p = as_fraction(loss, "loss")
    if p < 0:
        raise FecError(f"loss {loss!r} is negative; give a probability from 0 to below 1")
    if p >= 1:
        raise FecError(
            f"loss {loss!r}: where every packet is lost no block size suffices (infinite)"
        )
    return p


def _checked_rate(decoding_error_rate: float | Fraction | str) -> Fraction:
    rate = as_fraction(decoding_error_rate, "decoding error rate")
    if not 0 < rate < 1:
        raise FecError(
            f"decoding error rate {decoding_error_rate!r} is not between 0 and 1 (exclusive),"
            " such as 1e-5"
        )
    return rate


# In the functions below, the loss is the fraction lost / sent of two integers.


@lru_cache(maxsize=65536)
def _block_size(m: int, lost: int, sent: int, rate: Fraction) -> int:
    """Return FEC_p, by doubling N and then by bisection.

    The failure probability decreases as N grows.
    """

    def suffices(n: int) -> bool:
        return not _fails_too_often(m, n, lost, sent, rate)

    if m * sent > LONGEST * (sent - lost):
        raise FecError(
            f"loss {lost / sent:.12g}: blocks of more than {LONGEST:g} packets; no code has such"
        )
    high = m
    while not suffices(high):
        high *= 2
    return bisect_left(range(high), True, lo=max(m, high // 2), key=suffices)


def _fails_too_often(m: int, n: int, lost: int, sent: int, rate: Fraction) -> bool:
    """Return whether delta (Gabrielyan 2007, eq. 25) exceeds the decoding error rate.

    Logarithms decide if the difference is clear, and integers otherwise.
    """
    if lost == 0:
        return False
    log_rate = math.log(rate.numerator) - math.log(rate.denominator)
    gap = _log_failure(m, n, lost, sent) - log_rate
    # This is about a hundred times the accumulated rounding error: a few ulps of log delta itself
    # and of m sums of logarithms below 100.
    if abs(gap) > 1e-12 * (100 + m):
        return gap > 0
    failing = _failing_combinations(m, n, lost, sent)
    return bool(failing * rate.denominator > rate.numerator * sent**n)


def _log_failure(m: int, n: int, lost: int, sent: int) -> float:
    """Return the natural logarithm of P(at most m - 1 of n packets arrive), as a float."""
    log_sent = math.log(sent)
    log_lost = math.log(lost) - log_sent
    log_arrived = math.log(sent - lost) - log_sent
    # The logarithm of the larger probability is near 0, where log1p is more accurate.
    if 2 * lost > sent:
        log_lost = math.log1p(-((sent - lost) / sent))
    else:
        log_arrived = math.log1p(-(lost / sent))
    log_combinations = 0.0
    terms = []
    for k in range(m):
        terms.append(log_combinations + k * log_arrived + (n - k) * log_lost)
        log_combinations += math.log(n - k) - math.log(k + 1)
    largest = max(terms)
    return largest + math.log(math.fsum(math.exp(term - largest) for term in terms))


def _failing_combinations(m: int, n: int, lost: int, sent: int) -> int:
    """Return P(at most m - 1 of n packets arrive) times sent^n, an integer.

    It is the sum over k < m of C(n, k) (sent - lost)^k lost^(n - k).
    """
    arrived = sent - lost
    if lost == 0:
        return 0
    # Horner's scheme computes the sum over k of C(n, k) arrived^k lost^(m - 1 - k).
    total = 0
    power = 1
    for k in range(m):
        total = total * lost + math.comb(n, k) * power
        power *= arrived
    return int(total * lost ** (n - m + 1))


def _on_link(intervals: Sequence[Interval], rule: LabelRule) -> NDArray[np.bool_]:
    """Return for each packet of one period whether its label is in the intervals.

    Returns:
        bool of shape (period,).
    """
    inside = np.zeros(LABELS, dtype=np.bool_)
    for start, stop in intervals:
        if not 0 <= start <= stop <= LABELS:
            raise FecError(f"label interval [{start}, {stop}) is not within [0, {LABELS})")
        inside[start:stop] = True
    return np.asarray(inside[label_table(rule)], dtype=np.bool_)


def _running_excess(lost: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return, for each i, the losses among the first i packets minus their expected number.

    Returns:
        float64 of shape (period,). The excess is periodic.
    """
    losses = np.cumsum(lost, dtype=np.int64)
    period = len(lost)
    before = np.concatenate(([0], losses[:-1]))
    # The differences are computed in integers, as multiples of 1 / period, and so are exact.
    difference = before * period - np.arange(period) * int(losses[-1])
    return np.asarray(difference / period, dtype=np.float64)


def _worst_excess(excess: NDArray[np.float64], window: int) -> float:
    """Return the largest |losses in a window - share * window| over all offsets."""
    return float(np.abs(np.roll(excess, -(window % len(excess))) - excess).max())
