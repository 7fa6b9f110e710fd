"""Measures the Reed-Solomon speed of every engine, and of zfec.

Figures are MB/s of source data in packets of 1000 bytes, for encoding and for decoding in the worst
case. They are the best of repeated runs on one core, with a new loss pattern each time. Packets are
bytes objects, and the time includes the copies into arrays.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from fec import ReedSolomonCode, available_engines

# Block size and number of source packets.
CODES = ((30, 23), (40, 20), (255, 223))
PACKET_BYTES = 1000
# The engine reedsolo is slow, because it processes one column after another in Python.
REFERENCE_BYTES = 16


def best_seconds(call: Callable[[], object], budget_s: float) -> float:
    """Return the shortest time of a call, over groups of calls within the budget."""
    call()
    best = float("inf")
    ends = time.perf_counter() + budget_s
    group = 1
    while time.perf_counter() < ends:
        start = time.perf_counter()
        for _ in range(group):
            call()
        took = time.perf_counter() - start
        best = min(best, took / group)
        if took < 0.002:
            group *= 2
    return best


def _worst_case(block: int, sources: int) -> list[int]:
    """Return the ids of the received symbols if all parity is needed."""
    lost = min(sources, block - sources)
    return list(range(lost, lost + sources))


def _patterns(block: int, sources: int) -> Iterator[list[int]]:
    """Yield new sets of M symbols, each of which contains every parity symbol."""
    rng = np.random.default_rng(3)
    lost = min(sources, block - sources)
    patterns = []
    for _ in range(2000):
        received = rng.permutation(sources)[: sources - lost]
        patterns.append(sorted(received.tolist()) + list(range(sources, sources + lost)))
    return itertools.cycle(patterns)


def engine_rows(engine: str, block: int, sources: int, budget_s: float) -> tuple[float, float]:
    """Return the MB/s of encoding, and of decoding with a new loss pattern each time."""
    rng = np.random.default_rng(1)
    code = ReedSolomonCode(sources, engine=engine)
    length = REFERENCE_BYTES if engine == "reedsolo" else PACKET_BYTES
    packets = [row.tobytes() for row in rng.integers(0, 256, (sources, length), dtype=np.uint8)]
    symbols = code.encode(packets, block)
    patterns = _patterns(block, sources)
    if code.decode({i: symbols[i] for i in _worst_case(block, sources)}) != packets:
        raise SystemExit(f"{engine} RS({block},{sources}): wrong bytes recovered")
    encode = best_seconds(partial(code.encode, packets, block), budget_s)
    decode = best_seconds(lambda: code.decode({i: symbols[i] for i in next(patterns)}), budget_s)
    megabytes = sources * length / 1e6
    return megabytes / encode, megabytes / decode


def zfec_rows(block: int, sources: int, budget_s: float) -> tuple[float, float] | None:
    """Return the MB/s of zfec's encoding and decoding in the worst case.

    Returns:
        None if zfec is not installed.
    """
    try:
        import zfec  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        return None
    megabytes = sources * PACKET_BYTES / 1e6
    rng = np.random.default_rng(1)
    packets = [
        row.tobytes() for row in rng.integers(0, 256, (sources, PACKET_BYTES), dtype=np.uint8)
    ]
    encoder = zfec.Encoder(sources, block)
    decoder = zfec.Decoder(sources, block)
    parity_ids = tuple(range(sources, block))
    symbols = [*packets, *encoder.encode(packets, parity_ids)]
    received_ids = _worst_case(block, sources)
    received = [symbols[i] for i in received_ids]
    encode = best_seconds(partial(encoder.encode, packets, parity_ids), budget_s)
    decode = best_seconds(partial(decoder.decode, received, received_ids), budget_s)
    return megabytes / encode, megabytes / decode


def main() -> None:
    """Print a row for each code and engine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.3, help="for each figure (default 0.3)")
    budget = parser.parse_args().seconds
    print(f"{'code':12}{'engine':10}{'encode':>10}{'decode':>10}   MB/s; encode / zfec's")
    for block, sources in CODES:
        name = f"RS({block},{sources})"
        zfec_figures = zfec_rows(block, sources, budget)
        for engine in available_engines():
            encode, decode = engine_rows(engine, block, sources, budget)
            ratio = f"{encode / zfec_figures[0]:8.1f} x" if zfec_figures else ""
            print(f"{name:12}{engine:10}{_figure(encode)}{_figure(decode)}{ratio}")
        if zfec_figures:
            print(f"{name:12}{'zfec':10}{zfec_figures[0]:10.0f}{zfec_figures[1]:10.0f}")
        else:
            print(f"{name:12}zfec is not installed: pip install zfec for the comparison")


def _figure(value: float) -> str:
    """Return a figure of the table, with decimals if it is small."""
    return f"{value:10.0f}" if value >= 10 else f"{value:10.2f}"


if __name__ == "__main__":
    main()
