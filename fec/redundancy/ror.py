"""Redundancy overall requirement (ROR): the redundancy that all single link failures require.

Theory of operation. In steady state the sender transmits P packets in some time. While link l is
down it has to transmit P_l packets in the same time, so that as much arrives. ROR is the sum of
P_l / P - 1 over the links (Gabrielyan 2007, eq. 20). If each link is down for D seconds of a long
communication, D P ROR is the number of packets that the sender adds (eq. 21 and 22). ROR therefore
rates a route by the cost of its failures.

With blocks of M source packets, P is FEC_t, the block size that tolerates a loss t in steady state.
P_l is FEC_r(l), the block size that answers the loss of the labels on link l, a share r(l) of all.
That is equation 23:

    ROR = sum over links with t <= r(l) < 1 of FEC_r(l) / FEC_t - 1

Equation 23, as printed, leaves out links that carry everything. Here they make ROR infinite,
because the text says that their failure does. FEC_p is
``fec.redundancy.block_size.fec_block_size`` (eq. 24 and 25). For large blocks it is M / (1 - p),
which gives equation 29. Only the loads of a route's links are needed.
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
    """The term of one link's failure.

    Attributes:
        load: The fraction of the flow on the link.
        block_size: N that answers the failure. None if the link does not count, if the load is 1,
            or with large blocks.
        overhead: P_l / P - 1; 0 below the tolerance, None (infinite) if the load is 1.
    """

    load: Fraction
    block_size: int | None
    overhead: Fraction | None


@dataclass(frozen=True, kw_only=True)
class RorBreakdown:
    """ROR and its terms.

    Attributes:
        base_block_size: FEC_t, or None with large blocks.
        per_load: The terms in the order of the loads.
    """

    base_block_size: int | None
    per_load: tuple[LoadOverhead, ...]

    @property
    def infinite(self) -> tuple[int, ...]:
        """Indices of loads of 1: links whose failure no redundancy answers."""
        return tuple(i for i, term in enumerate(self.per_load) if term.overhead is None)

    @property
    def ror(self) -> float:
        """Sum of the overheads, or infinity if a load is 1.

        Gabrielyan 2007, eq. 23, as printed would skip such a link.
        """
        return math.inf if self.infinite else self.finite

    @property
    def finite(self) -> float:
        """Sum of the overheads without loads of 1, as eq. 23 is printed."""
        return float(sum((term.overhead or Fraction(0) for term in self.per_load), Fraction(0)))


def ror(
    loads: Iterable[Number],
    *,
    tolerance: Number,
    source_packets: int,
    decoding_error_rate: Number,
    large_blocks: bool = False,
) -> float:
    """Return the redundancy overall requirement of a route (Gabrielyan 2007, eq. 23).

    Args:
        loads: The fraction of the flow on each link, 0 to 1, in any order.
        tolerance: The static tolerance t, 0 <= t < 1. Links below t cost nothing.
        source_packets: M, the source packets of a block.
        decoding_error_rate: Accepted probability that a block cannot be decoded.
        large_blocks: Use eq. 29, which holds for large blocks.

    Returns:
        ROR; infinity if a link has load 1.

    Raises:
        FecError: A value is outside its range.

    >>> round(ror([0.5, 0.5], tolerance=0.05, source_packets=20, decoding_error_rate=1e-5), 4)
    3.4286
    >>> ror(
    ...     [0.5, 0.5],
    ...     tolerance=0.05,
    ...     source_packets=20,
    ...     decoding_error_rate=1e-5,
    ...     large_blocks=True,
    ... )
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
    """Return ROR with the block size (Gabrielyan 2007, eq. 25) and overhead of every load.

    Args:
        loads: The fraction of the flow on each link, 0 to 1; the terms have the same order.
        tolerance: The static tolerance t, 0 <= t < 1.
        source_packets: M, the source packets of a block.
        decoding_error_rate: Accepted probability that a block cannot be decoded.
        large_blocks: Use eq. 29; there are no block sizes then.

    Raises:
        FecError: A value is outside its range.
    """
    fractions, t = _checked_loads(loads, tolerance)
    if large_blocks:
        terms = tuple(_large_block_term(load, t) for load in fractions)
        return RorBreakdown(base_block_size=None, per_load=terms)
    base = fec_block_size(source_packets, t, decoding_error_rate)
    sizes = [
        fec_block_size(source_packets, load, decoding_error_rate) if t <= load < 1 else None
        for load in fractions
    ]
    return _breakdown(fractions, t, sizes, base)


def ror_of_block_sizes(
    loads: Iterable[Number],
    block_sizes: Sequence[int | None],
    base_block_size: int,
    *,
    tolerance: Number,
    source_packets: int,
) -> RorBreakdown:
    """Return ``ror_breakdown`` with given block sizes, such as those of stratified labels.

    Args:
        loads: The fraction of the flow on each link, 0 to 1.
        block_sizes: One N for each load, or None if the load is 1 or too small to count. A size
            below the base counts as the base, because the sender never sends less than in steady
            state.
        base_block_size: N in steady state.
        tolerance: The static tolerance t, 0 <= t < 1.
        source_packets: M, the source packets of a block.

    Raises:
        FecError: A value is outside its range, or sizes and loads do not match.
    """
    fractions, t = _checked_loads(loads, tolerance)
    sizes = _checked_sizes(fractions, t, block_sizes, base_block_size, source_packets)
    return _breakdown(fractions, t, sizes, base_block_size)


def _checked_loads(loads: Iterable[Number], tolerance: Number) -> tuple[list[Fraction], Fraction]:
    """Return the loads and the tolerance as exact fractions."""
    t = as_fraction(tolerance, "tolerance")
    if not 0 <= t < 1:
        raise FecError(
            f"tolerance {tolerance!r}: give a fraction of the packets, from 0 to below 1"
        )
    if not isinstance(loads, Iterable):
        raise FecError(f"loads {loads!r}: give a list of the loads of a route's links")
    return [_checked_load(i, load) for i, load in enumerate(loads)], t


def _checked_load(index: int, load: Number) -> Fraction:
    fraction = as_fraction(load, f"load {index}")
    if not 0 <= fraction <= 1:
        raise FecError(f"load {index} is {load!r}; a load is a fraction of the flow, from 0 to 1")
    return fraction


def _checked_sizes(
    loads: Sequence[Fraction],
    t: Fraction,
    sizes: Sequence[int | None],
    base: int,
    source_packets: int,
) -> list[int | None]:
    """Return the block sizes of the loads that count, at least the base; None for the others."""
    if len(sizes) != len(loads):
        raise FecError(
            f"{len(sizes)} block sizes for {len(loads)} loads;"
            " give one each (None where the load is 1)"
        )
    if base < source_packets:
        raise FecError(f"base_block_size {base} is below source_packets {source_packets}")
    checked: list[int | None] = []
    for i, (load, size) in enumerate(zip(loads, sizes, strict=True)):
        if not t <= load < 1:
            checked.append(None)
        elif size is None or size < source_packets:
            raise FecError(
                f"block size {size} for load {i}: give at least source_packets {source_packets}"
            )
        else:
            checked.append(max(base, size))
    return checked


def _breakdown(
    loads: Sequence[Fraction], t: Fraction, sizes: Sequence[int | None], base: int
) -> RorBreakdown:
    """Return ROR of loads with these block sizes (None if a load does not count)."""
    terms = []
    for load, size in zip(loads, sizes, strict=True):
        overhead = None if size is None else Fraction(size, base) - 1
        terms.append(_term(load, t, overhead, size))
    return RorBreakdown(base_block_size=base, per_load=tuple(terms))


def _large_block_term(load: Fraction, t: Fraction) -> LoadOverhead:
    """Return a term of eq. 29."""
    overhead = (1 - t) / (1 - load) - 1 if load < 1 else None
    return _term(load, t, overhead)


def _term(
    load: Fraction, t: Fraction, overhead: Fraction | None, size: int | None = None
) -> LoadOverhead:
    """Return the term of a load; ``overhead`` and ``size`` apply if the load counts."""
    if load == 1:
        return LoadOverhead(load=load, block_size=None, overhead=None)
    if load < t or overhead is None:
        return LoadOverhead(load=load, block_size=None, overhead=Fraction(0))
    return LoadOverhead(load=load, block_size=size, overhead=overhead)
