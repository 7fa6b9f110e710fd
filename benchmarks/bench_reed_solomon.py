"""Measures the speed of every Reed-Solomon engine beside zfec, in source MB/s.

Packets have 1000 bytes. The figures are of encoding and of decoding in the worst case: the best of
repeated runs on one core, on bytes objects, with a new loss pattern each time. They include the
conversion to rows, and copies.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from fec import ReedSolomonCode, available_engines

# N and M of each code.
CODES = ((30, 23), (40, 20), (255, 223))
PACKET_BYTES = 1000
# The reference engine computes one column at a time in Python.
REFERENCE_BYTES = 16
# Number of different loss patterns.
PATTERNS = 2000
# Groups of calls become longer until they take this time, so that the clock is precise enough.
MIN_GROUP_S = 0.002


class Speed(NamedTuple):
    """Speeds in MB/s."""

    encode: float
    decode: float


def best_seconds(call: Callable[[], object], budget_s: float) -> float:
    """Return the shortest mean time of a call, over groups of calls within the budget."""
    call()
    best_s = float("inf")
    end_s = time.perf_counter() + budget_s
    group_size = 1
    while time.perf_counter() < end_s:
        start_s = time.perf_counter()
        for _ in range(group_size):
            call()
        duration_s = time.perf_counter() - start_s
        best_s = min(best_s, duration_s / group_size)
        if duration_s < MIN_GROUP_S:
            group_size *= 2
    return best_s


def _lost_count(block: int, sources: int) -> int:
    """Return how many source symbols are lost in the worst case: as many as can be repaired."""
    return min(sources, block - sources)


def _worst_case_ids(block: int, sources: int) -> list[int]:
    """Return the ids of the received symbols in the worst case."""
    lost = _lost_count(block, sources)
    return list(range(lost, lost + sources))


def _loss_patterns(block: int, sources: int) -> Iterator[list[int]]:
    """Yield ids of M received symbols without end; all needed parity symbols are among them."""
    rng = np.random.default_rng(3)
    lost = _lost_count(block, sources)
    parity = list(range(sources, sources + lost))
    patterns = []
    for _ in range(PATTERNS):
        received = rng.permutation(sources)[: sources - lost]
        patterns.append(sorted(received.tolist()) + parity)
    return itertools.cycle(patterns)


def _packets(sources: int, length: int) -> list[bytes]:
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 256, (sources, length), dtype=np.uint8)
    return [row.tobytes() for row in rows]


def engine_speed(engine: str, block: int, sources: int, budget_s: float) -> Speed:
    """Measure an engine.

    Args:
        engine: Name of the engine.
        block: N, the number of symbols of a block.
        sources: M, the number of source symbols.
        budget_s: Time for each figure, in seconds.
    """
    code = ReedSolomonCode(sources, engine=engine)
    length = REFERENCE_BYTES if engine == "reedsolo" else PACKET_BYTES
    packets = _packets(sources, length)
    symbols = code.encode(packets, block)
    worst_case = {index: symbols[index] for index in _worst_case_ids(block, sources)}
    if code.decode(worst_case) != packets:
        raise SystemExit(f"{engine} RS({block},{sources}): wrong bytes recovered")
    patterns = _loss_patterns(block, sources)

    def encode() -> object:
        return code.encode(packets, block)

    def decode() -> object:
        return code.decode({index: symbols[index] for index in next(patterns)})

    megabytes = sources * length / 1e6
    encode_s = best_seconds(encode, budget_s)
    decode_s = best_seconds(decode, budget_s)
    return Speed(megabytes / encode_s, megabytes / decode_s)


def zfec_speed(block: int, sources: int, budget_s: float) -> Speed | None:
    """Measure zfec, and return None if it is not installed.

    Args:
        block: N, the number of symbols of a block.
        sources: M, the number of source symbols.
        budget_s: Time for each figure, in seconds.
    """
    try:
        import zfec  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        return None
    packets = _packets(sources, PACKET_BYTES)
    encoder = zfec.Encoder(sources, block)
    decoder = zfec.Decoder(sources, block)
    parity_ids = tuple(range(sources, block))
    symbols = [*packets, *encoder.encode(packets, parity_ids)]
    received_ids = _worst_case_ids(block, sources)
    received = [symbols[index] for index in received_ids]

    def encode() -> object:
        return encoder.encode(packets, parity_ids)

    def decode() -> object:
        return decoder.decode(received, received_ids)

    megabytes = sources * PACKET_BYTES / 1e6
    encode_s = best_seconds(encode, budget_s)
    decode_s = best_seconds(decode, budget_s)
    return Speed(megabytes / encode_s, megabytes / decode_s)


def _figure(speed: float) -> str:
    return f"{speed:10.0f}" if speed >= 10 else f"{speed:10.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=0.3, help="time for each figure (default 0.3)"
    )
    budget_s = parser.parse_args().seconds
    print(f"{'code':12}{'engine':10}{'encode':>10}{'decode':>10}   MB/s; encode / zfec's")
    for block, sources in CODES:
        name = f"RS({block},{sources})"
        zfec = zfec_speed(block, sources, budget_s)
        for engine in available_engines():
            speed = engine_speed(engine, block, sources, budget_s)
            line = f"{name:12}{engine:10}{_figure(speed.encode)}{_figure(speed.decode)}"
            if zfec is not None:
                line += f"{speed.encode / zfec.encode:8.1f} x"
            print(line)
        if zfec is None:
            print(f"{name:12}zfec is not installed: pip install zfec for the comparison")
        else:
            print(f"{name:12}{'zfec':10}{zfec.encode:10.0f}{zfec.decode:10.0f}")


if __name__ == "__main__":
    main()
