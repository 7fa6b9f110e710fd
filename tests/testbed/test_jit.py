"""Compiled code is kept under a name that changes with whatever it was compiled from."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
import pytest

from fec.jit import fingerprint
from testbed.jit import by_reference, compiled_entry, first_bit
from testbed.scheduling.fast import class_ejection
from testbed.scheduling.fast.class_ejection import eject_classes, place_class


def test_a_changed_step_number_or_field_is_compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint((eject_classes, place_class))
    assert before == fingerprint((eject_classes, place_class)) != fingerprint((place_class,))
    with monkeypatch.context() as changed:
        changed.setattr(class_ejection, "TABU_STEPS", 9)
        assert fingerprint((eject_classes, place_class)) != before
    with monkeypatch.context() as changed:
        changed.setattr(class_ejection.ClassTable, "_fields", ("units",))
        assert fingerprint((eject_classes, place_class)) != before
    assert fingerprint((eject_classes, place_class)) == before


class Inner(NamedTuple):
    scale: int
    grid: Any


class Outer(NamedTuple):
    row: Any
    cube: Any
    inner: Inner


def last_of(row: Any) -> int:
    return int(row[len(row) - 1])


def use_all(tables: Any) -> int:
    t = by_reference(tables)
    t.row[1] = t.inner.scale
    t.inner.grid[1, 0] += t.row[1]
    t.cube[1, 1, 1] = t.cube.shape[2] + first_bit(t.row[0])
    return int(
        t.cube[1, 1, 1] * 1000
        + last_of(t.inner.grid[1]) * 100
        + t.inner.grid[1, 0]
        + last_of(t.row)
    )


def test_a_table_handed_on_by_reference_is_read_and_written_as_in_python() -> None:
    def tables() -> Outer:
        return Outer(
            np.array([8, 0, 5]), np.zeros((2, 2, 7), np.int16), Inner(3, np.arange(6).reshape(3, 2))
        )

    plain, compiled = tables(), tables()
    assert compiled_entry(use_all)(compiled) == use_all(plain) == 10_310
    for ours, theirs in (
        (compiled.row, plain.row),
        (compiled.cube, plain.cube),
        (compiled.inner.grid, plain.inner.grid),
    ):
        assert np.array_equal(ours, theirs)
    # Compiled code returns each reference to an array that it has taken.
    assert sys.getrefcount(compiled.row) == sys.getrefcount(plain.row)


class Pair(NamedTuple):
    kept: np.ndarray
    plain: np.ndarray


def count_up(pair: Pair) -> None:
    pair.kept[0].status += pair.plain[0]


def test_without_compilation_records_are_read_by_name_and_written_in_place(monkeypatch) -> None:
    """As with NUMBA_DISABLE_JIT=1."""
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    pair = Pair(np.zeros(2, dtype=[("status", "i8")]), np.array([3]))
    compiled_entry(count_up)(pair)
    assert pair.kept["status"].tolist() == [3, 0]


@pytest.mark.parametrize("bits", [1, 0b101000, 1 << 31, 3 << 32, 1 << 62, -(1 << 63), -2])
def test_first_bit_is_that_of_python(bits: int) -> None:
    expected = (bits & -bits).bit_length() - 1
    assert first_bit(bits) == first_bit(np.int64(bits)) == expected
