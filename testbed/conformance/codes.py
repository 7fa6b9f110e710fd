"""Judges a code for large blocks by its decoder: any enough symbols give the block back, fewer never give a wrong
one."""

import random
from collections.abc import Callable, Sequence
from functools import partial

from fec.protocol.large_blocks import BlockCode
from testbed.conformance.problem_checks import finding
from testbed.model.verdict import Check

SIZES = ((1, 64), (5, 64), (40, 256), (100, 1024))
"""(source symbols, bytes of each)."""
_DRAWS, _SPARE = 8, 3


def code_checks(make: Callable[[], BlockCode]) -> list[Check]:
    """One check a property and size."""
    found = [finding("it says what it is", lambda: _undescribed(make()))]
    for symbols, size in SIZES:
        where = f"{symbols} symbols of {size} bytes"
        found += [
            finding(f"{where}: the source symbols alone", partial(_fails, make, symbols, size, [range(symbols)])),
            finding(f"{where}: random symbols of the first two blocks' worth", partial(_random, make, symbols, size)),
            finding(f"{where}: too few symbols give nothing", partial(_too_early, make, symbols, size)),
        ]
    return found


def _undescribed(code: BlockCode) -> str | None:
    if not isinstance(code.name, str) or not code.most_symbols >= 1 or not code.excess >= 0:
        said = f"name {code.name!r}, most_symbols {code.most_symbols!r}, excess {code.excess!r}"
        return f"{said}; give a text, 1 or more, 0 or more"
    return None


def _block(symbols: int, size: int) -> bytes:
    return random.Random(symbols * size).randbytes(symbols * size)


def _fails(make: Callable[[], BlockCode], symbols: int, size: int, draws: Sequence[Sequence[int]]) -> str | None:
    code, data = make(), _block(symbols, size)
    encoder = code.encoder(data, size)
    for numbers in draws:
        decoder = code.decoder(symbols, size)
        given = 0
        for number in numbers:
            symbol = encoder.symbol(number)
            if len(symbol) != size:
                return f"symbol {number} has {len(symbol)} bytes, not {size}"
            given += 1
            decoded = decoder.add(number, symbol)
            if decoded is not None:
                break
        else:
            return f"not decoded from {given} different symbols"
        if decoded != data:
            return f"decoded from {given} symbols, but to other bytes"
    return None


def _random(make: Callable[[], BlockCode], symbols: int, size: int) -> str | None:
    draw, code = random.Random(7), make()
    most = min(2 * symbols + 20, 255 if code.most_symbols < 256 else 1 << 16)
    required = min(symbols + code.excess + _SPARE, most)
    return _fails(make, symbols, size, [draw.sample(range(most), required) for _ in range(_DRAWS)])


def _too_early(make: Callable[[], BlockCode], symbols: int, size: int) -> str | None:
    code = make()
    encoder, decoder = code.encoder(_block(symbols, size), size), code.decoder(symbols, size)
    for number in range(symbols - 1):
        if decoder.add(number, encoder.symbol(number)) is not None:
            return f"decoded from {number + 1} of {symbols} symbols"
    return None
