"""Whatever a code is given, it answers or raises FecError, and what it decodes is of the block's size."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fec.adapters.raptorq_blocks import RaptorQBlocks
from fec.code.block_codes import ReedSolomonBlocks
from fec.code.reed_solomon import ReedSolomonCode
from fec.errors import FecError

CODES: list[Any] = [
    ReedSolomonBlocks,
    pytest.param(RaptorQBlocks, marks=pytest.mark.filterwarnings("ignore")),
]
numbers = st.sampled_from(
    [
        -(2**40),
        -1,
        0,
        1,
        2,
        3,
        7,
        8,
        16,
        255,
        256,
        2**24,
        2**40,
        2.5,
        2.0,
        float("nan"),
        None,
        "0",
        b"1",
        True,
    ]
)
data = st.binary(max_size=40) | st.sampled_from(
    [None, "text", 5, [1, 2], bytearray(16), memoryview(bytes(16)), memoryview(bytes(32))[::2]]
)


@pytest.mark.parametrize("make", CODES)
@given(block=data, size=numbers, number=numbers)
def test_encoders_of_blocks(make: Callable[[], Any], block: Any, size: Any, number: Any) -> None:
    if make is RaptorQBlocks:
        pytest.importorskip("raptorq")
    with suppress(FecError):
        assert len(make().encoder(block, size).symbol(number)) == size


@pytest.mark.parametrize("make", CODES)
@given(count=numbers, size=numbers, added=st.lists(st.tuples(numbers, data), max_size=6))
def test_decoders_of_blocks(
    make: Callable[[], Any], count: Any, size: Any, added: list[tuple[Any, Any]]
) -> None:
    if make is RaptorQBlocks:
        pytest.importorskip("raptorq")
    with suppress(FecError):
        decoder = make().decoder(count, size)
        for number, symbol in added:
            with suppress(FecError):
                found = decoder.add(number, symbol)
                assert found is None or len(found) == count * size


@given(m=numbers, packets=st.lists(data, max_size=4) | data, count=numbers, first=numbers)
def test_reed_solomon(m: Any, packets: Any, count: Any, first: Any) -> None:
    with suppress(FecError):
        code = ReedSolomonCode(m)
        for call in (
            lambda: code.encode(packets, count),
            lambda: code.parity(packets, first, count),
        ):
            with suppress(FecError):
                call()


@given(symbols=st.dictionaries(numbers.filter(lambda n: n == n), data, max_size=4) | data)
def test_reed_solomon_decodes_or_refuses(symbols: Any) -> None:
    with suppress(FecError):
        found = ReedSolomonCode(2).decode(symbols)
        assert len(found) == 2 and len(set(map(len, found))) == 1


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: ReedSolomonBlocks().encoder(bytes(10), 4),
            "block of 10 bytes: give 1 to 254 symbols of 4 bytes",
        ),
        (
            lambda: ReedSolomonBlocks().encoder(bytes(8), 0),
            "symbol_bytes '0': give a whole number from 1 to 65535",
        ),
        (
            lambda: ReedSolomonBlocks().decoder(2, 8).add(-1, bytes(8)),
            "symbol '-1': give a whole number from 0 to 16777215",
        ),
        (lambda: ReedSolomonBlocks().decoder(2, 8).add(0, bytes(7)), "symbol: 7 bytes; give 8"),
        (lambda: ReedSolomonCode(1).decode({"0": b"ab"}), "give a whole number"),
        (lambda: ReedSolomonCode(1).decode({2.5: b"ab"}), "give a whole number"),
        *(
            (
                lambda packet=packet: ReedSolomonCode(1).encode([packet], 2),
                f"packet of the block: got a {kind}; give bytes",
            )
            for packet, kind in (
                ("text", "str"),
                (memoryview(bytes(8))[::2], "memoryview"),
                (memoryview(array("H", [1, 2])), "memoryview"),
            )
        ),
    ],
)
def test_the_message_says_what_to_give(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(FecError) as caught:
        call()
    assert says in str(caught.value)
