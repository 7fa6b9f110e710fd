"""Every engine of the Reed-Solomon code against the same expectations, and all of them byte by byte against
reedsolo."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fec import EngineUnavailable, FecError, NotDecodable, ReedSolomonCode, available_engines
from fec.engines import load_engine
from fec.engines.galois_field import interpolation_rows
from tests.helpers.drawn import drawn

FAST = ("isal", "numpy")


@pytest.fixture(params=("isal", "numpy", "reedsolo"))
def engine(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if name not in available_engines():
        pytest.skip(f"this machine lacks the engine {name!r}: {_lack(name)}")
    return name


def _lack(name: str) -> str:
    try:
        load_engine(name)
    except EngineUnavailable as error:
        return str(error)
    return ""


def _random_packets(rng: np.random.Generator, count: int, length: int) -> list[bytes]:
    return [row.tobytes() for row in rng.integers(0, 256, (count, length), dtype=np.uint8)]


def test_the_worked_example_has_these_bytes(engine: str) -> None:
    """Computed by hand-run of reedsolo: pins the code against a change of field, points or order."""
    symbols = ReedSolomonCode(3, engine=engine).encode([b"\x01\x00", b"\x02\xff", b"\x03\x80"], 6)
    assert symbols[:3] == [b"\x01\x00", b"\x02\xff", b"\x03\x80"]
    assert [s.hex() for s in symbols[3:]] == WORKED_EXAMPLE


WORKED_EXAMPLE = ["1d34", "5174", "1420"]


@pytest.mark.parametrize("source_packets", [1, 2, 20, 128, 223, 254])
def test_first_parity_symbols_are_those_of_reedsolo(source_packets: int) -> None:
    """Unit vectors through reedsolo give the matrix; the engines' closed form must give the same."""
    reference = ReedSolomonCode(source_packets, engine="reedsolo")
    unit = [row.tobytes() for row in np.eye(source_packets, dtype=np.uint8)]
    count = min(255, source_packets + 40)
    parity = reference.encode(unit, count)[source_packets:]
    expected = interpolation_rows(range(source_packets), range(source_packets, count))
    assert [list(p) for p in parity] == expected.tolist()


@pytest.mark.parametrize(
    ("source_packets", "count"), [(1, 5), (20, 40), (23, 30), (223, 255), (254, 255)]
)
def test_any_engine_gives_the_bytes_of_reedsolo(
    engine: str, source_packets: int, count: int
) -> None:
    packets = _random_packets(np.random.default_rng(count), source_packets, 13)
    reference = ReedSolomonCode(source_packets, engine="reedsolo").encode(packets, count)
    assert ReedSolomonCode(source_packets, engine=engine).encode(packets, count) == reference


def test_parity_added_later_is_that_of_a_larger_block(engine: str) -> None:
    packets = _random_packets(np.random.default_rng(1), 20, 50)
    code = ReedSolomonCode(20, engine=engine)
    whole = code.encode(packets, 50)
    assert code.encode(packets, 24) == whole[:24]
    assert code.parity(packets, 24, 31) + code.parity(packets, 31, 50) == whole[24:]
    assert code.parity(packets, 30, 30) == []
    assert code.parity(packets, 254, 255) == [code.encode(packets, 255)[254]]


def test_worst_case_loss_of_all_source_packets_is_repaired(engine: str) -> None:
    packets = _random_packets(np.random.default_rng(2), 10, 3)
    code = ReedSolomonCode(10, engine=engine)
    symbols = code.encode(packets, 255)
    assert code.decode({i: symbols[i] for i in range(245, 255)}) == packets
    assert code.decode({i: symbols[i] for i in range(10, 20)}) == packets


def test_one_packet_too_few_is_not_decodable(engine: str) -> None:
    packets = _random_packets(np.random.default_rng(3), 5, 8)
    code = ReedSolomonCode(5, engine=engine)
    symbols = code.encode(packets, 9)
    with pytest.raises(NotDecodable, match="4 of its symbols received, 5 needed") as caught:
        code.decode({i: symbols[i] for i in (0, 3, 6, 8)})
    assert (caught.value.received, caught.value.needed) == (4, 5)


def test_any_bytes_like_packets_are_taken(engine: str) -> None:
    packets: Sequence[bytes] = _random_packets(np.random.default_rng(4), 3, 8)
    code = ReedSolomonCode(3, engine=engine)
    symbols = code.encode([bytearray(packets[0]), memoryview(packets[1]), packets[2]], 6)
    assert symbols == code.encode(packets, 6)
    assert all(type(s) is bytes for s in symbols)
    assert (
        code.decode({5: memoryview(symbols[5]), 1: bytearray(symbols[1]), 4: symbols[4]}) == packets
    )


@drawn(100)
@given(data=st.data())
def test_any_m_symbols_decode_on_every_engine_alike(data: st.DataObject) -> None:
    m = data.draw(st.integers(1, 254), label="source packets")
    n = data.draw(st.integers(m, 255), label="block size")
    length = data.draw(st.integers(1, 41), label="length")
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32), label="seed"))
    packets = _random_packets(rng, m, length)
    arrived = rng.permutation(n)[: m + int(rng.integers(0, n - m + 1))]
    made = []
    for name in (e for e in FAST if e in available_engines()):
        code = ReedSolomonCode(m, engine=name)
        made.append(code.encode(packets, n))
        assert code.decode({int(i): made[-1][i] for i in arrived}) == packets
    assert all(other == made[0] for other in made)


@drawn(10)
@given(m=st.integers(1, 40), extra=st.integers(1, 20), seed=st.integers(0, 2**32))
def test_reedsolo_decodes_what_the_fast_engines_encode(m: int, extra: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    packets = _random_packets(rng, m, 2)
    reference = ReedSolomonCode(m, engine="reedsolo")
    symbols = ReedSolomonCode(m).encode(packets, m + extra)
    arrived = {int(i): symbols[i] for i in rng.permutation(m + extra)[:m]}
    assert reference.decode(arrived) == packets


def test_impossible_requests_raise_errors() -> None:
    for wrong in (0, 255, 1000):
        with pytest.raises(FecError, match="RaptorQ"):
            ReedSolomonCode(wrong)
    code = ReedSolomonCode(2)
    with pytest.raises(FecError, match="RaptorQ"):
        code.encode([b"ab", b"cd"], 256)
    with pytest.raises(FecError, match="block size 1"):
        code.encode([b"ab", b"cd"], 1)
    with pytest.raises(FecError, match="pad"):
        code.encode([b"ab", b"c"], 3)
    with pytest.raises(FecError, match="at least 1 byte"):
        code.encode([b"", b""], 3)
    with pytest.raises(FecError, match="3 packets given"):
        code.encode([b"ab", b"cd", b"ef"], 4)
    with pytest.raises(FecError, match="parity symbols 1"):
        code.parity([b"ab", b"cd"], 1, 3)
    with pytest.raises(FecError, match="symbol ids"):
        code.decode({0: b"ab", 255: b"cd"})
    with pytest.raises(FecError, match="symbol ids"):
        code.decode({-1: b"ab", 1: b"cd"})
    with pytest.raises(FecError, match="choose one of isal, numpy, reedsolo"):
        ReedSolomonCode(2, engine="abacus")
