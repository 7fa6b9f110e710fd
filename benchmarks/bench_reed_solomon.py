"""Reed-Solomon speed of every engine beside zfec: source MB/s for 1000-byte packets, encoding and worst-case decoding.

Best of repeated runs on one core, on bytes objects with a new loss pattern each time, rows and copies included.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator

import numpy as np

from fec import ReedSolomonCode, available_engines

CODES = ((30, 23), (40, 20), (255, 223))
PACKET_BYTES = 1000
REFERENCE_BYTES = 16  # a column at a time in Python


def best_seconds(call: Callable[[], object], budget_s: float) -> float:
    """Shortest time of one call, over groups of calls within the budget."""
    call()
    best, ends = float("inf"), time.perf_counter() + budget_s
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


def _worst_case(block: int, sources: int) -> tuple[list[int], list[int]]:
    """(known, missing) ids when as many source symbols as there is parity are lost."""
    lost = min(sources, block - sources)
    return list(range(lost, lost + sources)), list(range(lost))


def _patterns(block: int, sources: int) -> Iterator[list[int]]:
    """Ever new sets of M symbols with every parity symbol in use."""
    rng = np.random.default_rng(3)
    lost = min(sources, block - sources)
    patterns = []
    for _ in range(2000):
        kept = rng.permutation(sources)[: sources - lost]
        patterns.append(sorted(kept.tolist()) + list(range(sources, sources + lost)))
    return itertools.cycle(patterns)


def engine_rows(engine: str, block: int, sources: int, budget_s: float) -> tuple[float, float]:
    """MB/s: encode, and decode with a new loss pattern each time."""
    rng = np.random.default_rng(1)
    code = ReedSolomonCode(sources, engine=engine)
    length = REFERENCE_BYTES if engine == "reedsolo" else PACKET_BYTES
    packets = [row.tobytes() for row in rng.integers(0, 256, (sources, length), dtype=np.uint8)]
    symbols, patterns = code.encode(packets, block), _patterns(block, sources)
    known, _ = _worst_case(block, sources)
    if code.decode({i: symbols[i] for i in known}) != packets:
        raise SystemExit(f"{engine} RS({block},{sources}): wrong bytes recovered")
    encode = best_seconds(lambda: code.encode(packets, block), budget_s)
    decode = best_seconds(lambda: code.decode({i: symbols[i] for i in next(patterns)}), budget_s)
    megabytes = sources * length / 1e6
    return megabytes / encode, megabytes / decode


def zfec_rows(block: int, sources: int, budget_s: float) -> tuple[float, float] | None:
    """MB/s of zfec's encode and worst-case decode on bytes; None where it is not installed."""
    try:
        import zfec  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        return None
    megabytes = sources * PACKET_BYTES / 1e6
    rng = np.random.default_rng(1)
    packets = [
        row.tobytes() for row in rng.integers(0, 256, (sources, PACKET_BYTES), dtype=np.uint8)
    ]
    encoder, decoder = zfec.Encoder(sources, block), zfec.Decoder(sources, block)
    parity_ids = tuple(range(sources, block))
    symbols = [*packets, *encoder.encode(packets, parity_ids)]
    known, _ = _worst_case(block, sources)
    received = [symbols[i] for i in known]
    encode = best_seconds(lambda: encoder.encode(packets, parity_ids), budget_s)
    decode = best_seconds(lambda: decoder.decode(received, known), budget_s)
    return megabytes / encode, megabytes / decode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.3, help="for each figure (default 0.3)")
    budget = parser.parse_args().seconds
    print(f"{'code':12}{'engine':10}{'encode':>10}{'decode':>10}   MB/s; encode / zfec's")
    for block, sources in CODES:
        name = f"RS({block},{sources})"
        zfec_figures = zfec_rows(block, sources, budget)
        for engine in available_engines():
            rows = engine_rows(engine, block, sources, budget)
            ratio = f"{rows[0] / zfec_figures[0]:8.1f} x" if zfec_figures else ""
            print(
                f"{name:12}{engine:10}"
                + "".join(f"{figure:10.{0 if figure >= 10 else 2}f}" for figure in rows)
                + ratio
            )
        if zfec_figures:
            print(f"{name:12}{'zfec':10}{zfec_figures[0]:10.0f}{zfec_figures[1]:10.0f}")
        else:
            print(f"{name:12}zfec is not installed: pip install zfec for the comparison")


if __name__ == "__main__":
    main()
