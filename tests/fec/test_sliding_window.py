"""Sliding-window RLC: the generator's published numbers, real bytes through losses, what the decoder must and must not
give."""

from __future__ import annotations

import random

import numpy as np
import pytest

from fec.code.sliding_window import SlidingWindowDecoder, SlidingWindowEncoder, TinyMT32, coding_coefficients, product
from fec.errors import FecError

PUBLISHED = """
2545341989  981918433 3715302833 2387538352 3591001365 3820442102 2114400566 2196103051 2783359912  764534509
643179475 1822416315  881558334 4207026366 3690273640 3240535687 2921447122 3984931427 4092394160   44209675
2188315343 2908663843 1834519336 3774670961 3019990707 4065554902 1239765502 4035716197 3412127188  552822483
161364450  353727785  140085994  149132008 2547770827 4064042525 4078297538 2057335507  622384752 2041665899
2193913817 1080849512
"""
"""RFC 8682, section 3: the first numbers of seed 1, from the authors' check32.out.txt (there after eight steps)."""


def test_tinymt32_gives_the_published_numbers() -> None:
    draws, wanted = TinyMT32(1), [int(word) for word in PUBLISHED.split()]
    assert [draws.next() for _ in wanted] == wanted


def test_coefficients_are_the_lowest_bytes_and_never_zero_when_dense() -> None:
    lowest = [int(word) & 0xFF for word in PUBLISHED.split()]
    assert coding_coefficients(1, 30).tolist() == [byte for byte in lowest if byte][:30]
    assert all(coding_coefficients(key, 200).all() for key in range(20))
    sparse = np.mean([np.count_nonzero(coding_coefficients(key, 200, 7)) / 200 for key in range(20)])
    assert sparse == pytest.approx(0.5, abs=0.03)
    with pytest.raises(FecError, match="repair key"):
        coding_coefficients(1 << 16, 4)


def test_product_is_that_of_the_field() -> None:
    """0x80 times 2 is 0x100, less the polynomial 0x11d."""
    assert product(2, np.array([0, 1, 0x80], dtype=np.uint8)).tolist() == [0, 2, 0x1D]


@pytest.mark.parametrize(("window", "every", "loss"), [(10, 3, 0.1), (23, 4, 0.05), (5, 1, 0.3)])
def test_what_is_given_is_what_was_sent(window: int, every: int, loss: float) -> None:
    chance = random.Random(window)
    encoder, decoder = SlidingWindowEncoder(window), SlidingWindowDecoder(4 * window)
    data = [chance.randbytes(16) for _ in range(400)]
    found: dict[int, bytes] = {}
    received = 0
    for number, symbol in enumerate(data):
        encoder.add(symbol)
        if chance.random() >= loss:
            received += 1
            found |= decoder.add_source(number, symbol)
        if number % every == every - 1:
            repair = encoder.repair()
            if chance.random() >= loss:
                found |= decoder.add_repair(repair)
    assert all(found[number] == data[number] for number in found)
    assert len(found) > received + 0.8 * (len(data) - received)


def test_one_repair_mends_one_loss_and_not_two() -> None:
    encoder, decoder = SlidingWindowEncoder(4), SlidingWindowDecoder(16)
    for number in range(4):
        encoder.add(bytes([number] * 3))
    first, second = encoder.repair(), encoder.repair()
    for number in (0, 3):
        decoder.add_source(number, bytes([number] * 3))
    assert decoder.add_repair(first) == {}
    assert decoder.add_repair(first) == {}
    assert decoder.add_repair(second) == {1: b"\x01\x01\x01", 2: b"\x02\x02\x02"}


def test_nothing_is_repaired_before_anything_was_sent() -> None:
    with pytest.raises(FecError, match="nothing to repair"):
        SlidingWindowEncoder(3).repair()
