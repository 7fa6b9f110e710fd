"""Redundancy overall requirement (ROR): what a route asks of its sender over all single link failures.

Theory of operation. At rest the sender transmits P packets in some time; while link l is down it has to transmit P_l in
the same time, so that as much arrives. ROR is the sum of P_l / P - 1 over the links (Gabrielyan 2007, eq. 20). If each
link is down for D seconds of a long communication, D P ROR is the number of packets that the sender really adds (eq. 21
and 22): ROR rates a route by what its failures cost. With blocks of M source packets, P is FEC_t, the block size that
tolerates a loss t at rest, and P_l is FEC_r(l), the one that answers the loss of the labels on link l, a share r(l) of
all. That is equation 23:

    ROR = sum over links with t <= r(l) < 1 of FEC_r(l) / FEC_t - 1

Links that carry everything are left out of equation 23 as it is printed; here they make ROR infinite, as the text says
that their failure does. FEC_p is ``fec.redundancy.block_size.fec_block_size`` (eq. 24 and 25); for large blocks it is M
/ (1 - p), which gives equation 29. Only the loads of a route's links are needed.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from fec.errors import FecError
from fec.redundancy.block_size import as_fraction, fec_block_size

Number = float | Fraction | str


@dataclass(frozen=True, kw_only=True)
class LoadOverhead:
    """One link's failure. ``block_size``: N that answers it, None where not counted, infinite or for large blocks.

    ``overhead``: P_l / P - 1 as an exact fraction; 0 below the tolerance, None (infinite) where the load is 1.
    """

    load: Fraction
    block_size: int | None
    overhead: Fraction | None


@dataclass(frozen=True, kw_only=True)
class RorBreakdown:
    """ROR and its terms in the order of the loads. ``base_block_size`` is FEC_t, None for large blocks."""

    base_block_size: int | None
    per_load: tuple[LoadOverhead, ...]

    @property
    def infinite(self) -> tuple[int, ...]:
        """Indices of loads of 1: links whose failure no redundancy answers."""
        return tuple(i for i, term in enumerate(self.per_load) if term.overhead is None)

    @property
    def ror(self) -> float:
        """Sum of the overheads; infinite where a load is 1 (Gabrielyan 2007, eq. 23, as printed would skip that
        link)."""
        return math.inf if self.infinite else self.finite

    @property
    def finite(self) -> float:
        """Sum of the overheads but for loads of 1, as eq. 23 is printed."""
        return float(sum((term.overhead or Fraction(0) for term in self.per_load), Fraction(0)))


def ror(
    loads: Iterable[Number],
    *,
    tolerance: Number,
    source_packets: int,
    decoding_error_rate: Number,
    large_blocks: bool = False,
) -> float:
    """Redundancy overall requirement of a route (Gabrielyan 2007, eq. 23; with ``large_blocks`` eq. 29).

    ``loads``: the fraction of the flow on each link, 0..1, in any order; ``tolerance``: the static tolerance t, 0 <= t
    < 1. Links below t cost nothing; a link with load 1 makes it ``math.inf``. FecError for values outside their ranges.

    >>> round(ror([0.5, 0.5], tolerance=0.05, source_packets=20, decoding_error_rate=1e-5), 4)
    3.4286
    >>> ror([0.5, 0.5], tolerance=0.05, source_packets=20, decoding_error_rate=1e-5, large_blocks=True)
    1.8
    >>> ror([1], tolerance=0.05, source_packets=20, decoding_error_rate=1e-5)
    inf
    """
    return ror_breakdown(
        loads,
        tolerance=tolerance,
        source_packets=source_packets,
        decoding_error_rate=decoding_error_rate,
        large_blocks=large_blocks,
    ).ror


def ror_breakdown(
    loads: Iterable[Number],
    *,
    tolerance: Number,
    source_packets: int,
    decoding_error_rate: Number,
    large_blocks: bool = False,
) -> RorBreakdown:
    """ROR with the block size (Gabrielyan 2007, eq. 25) and overhead of every load, in the order given.

    The arguments are those of ``ror``; with ``large_blocks`` there are no block sizes (eq. 29). FecError for values
    outside their ranges.
    """
    fractions, t = _checked_loads(loads, tolerance)
    if large_blocks:
        terms = tuple(_term(r, t, (1 - t) / (1 - r) - 1 if r < 1 else None) for r in fractions)
        return RorBreakdown(base_block_size=None, per_load=terms)
    base = fec_block_size(source_packets, t, decoding_error_rate)
    sizes = [
        fec_block_size(source_packets, r, decoding_error_rate) if t <= r < 1 else None
        for r in fractions
    ]
    terms = tuple(_block_term(r, t, size, base) for r, size in zip(fractions, sizes, strict=True))
    return RorBreakdown(base_block_size=base, per_load=terms)


def ror_of_block_sizes(
    loads: Iterable[Number],
    block_sizes: Sequence[int | None],
    base_block_size: int,
    *,
    tolerance: Number,
    source_packets: int,
) -> RorBreakdown:
    """``ror_breakdown`` with given block sizes in place of eq. 25: the deterministic ones of stratified labels.

    One size for each load, None where a load is 1 or too small to count. A size below the base counts as the base: the
    sender never sends less than at rest. FecError where sizes and loads do not fit together.
    """
    fractions, t = _checked_loads(loads, tolerance)
    base, sizes = _checked_sizes(fractions, t, block_sizes, base_block_size, source_packets)
    terms = tuple(_block_term(r, t, size, base) for r, size in zip(fractions, sizes, strict=True))
    return RorBreakdown(base_block_size=base, per_load=terms)


def _checked_loads(loads: Iterable[Number], tolerance: Number) -> tuple[list[Fraction], Fraction]:
    t = as_fraction(tolerance, "tolerance")
    if not 0 <= t < 1:
        raise FecError(
            f"tolerance {tolerance!r}: give a fraction of the packets, from 0 to below 1"
        )
    if not isinstance(loads, Iterable):
        raise FecError(f"loads {loads!r}: give a list of the loads of a route's links")
    return [_checked_load(i, load) for i, load in enumerate(loads)], t


def _checked_load(index: int, load: Number) -> Fraction:
    r = as_fraction(load, f"load {index}")
    if not 0 <= r <= 1:
        raise FecError(f"load {index} is {load!r}; a load is a fraction of the flow, from 0 to 1")
    return r


def _checked_sizes(
    loads: Sequence[Fraction],
    t: Fraction,
    sizes: Sequence[int | None],
    base: int,
    source_packets: int,
) -> tuple[int, list[int | None]]:
    if len(sizes) != len(loads):
        raise FecError(
            f"{len(sizes)} block sizes for {len(loads)} loads; give one each (None where the load is 1)"
        )
    if base < source_packets:
        raise FecError(f"base_block_size {base} is below source_packets {source_packets}")
    for i, (r, size) in enumerate(zip(loads, sizes, strict=True)):
        if t <= r < 1 and (size is None or size < source_packets):
            raise FecError(
                f"block size {size} for load {i}: give at least source_packets {source_packets}"
            )
    return base, [
        max(base, size) if size is not None and t <= r < 1 else None
        for r, size in zip(loads, sizes, strict=True)
    ]


def _block_term(load: Fraction, t: Fraction, size: int | None, base: int) -> LoadOverhead:
    return _term(load, t, None if size is None else Fraction(size, base) - 1, size)


def _term(
    load: Fraction, t: Fraction, overhead: Fraction | None, size: int | None = None
) -> LoadOverhead:
    """Of a load that counts, that size and overhead; ``overhead`` None: it does not."""
    if load == 1:
        return LoadOverhead(load=load, block_size=None, overhead=None)
    if load < t or overhead is None:
        return LoadOverhead(load=load, block_size=None, overhead=Fraction(0))
    return LoadOverhead(load=load, block_size=size, overhead=overhead)
