"""What is compiled ahead is all that is called, and is called only where it was made of just this source, for these
types and this processor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fec import jit
from fec.jit import CompiledEntry, compiled_entry
from tests.helpers.paths import ROOT

pytestmark = pytest.mark.skipif(
    jit.kernels() is None, reason="no library of compiled routines: make kernels"
)
WITHOUT_NUMBA = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "llvmlite"):
            raise ImportError("compiled code is not up to date: make kernels")

sys.meta_path.insert(0, Refused())
from testbed.commands.network.compile_ahead import TASKS

for name, task in TASKS.items():
    if name != "striped files":
        task()
assert "numba" not in sys.modules
"""
COUNT, WINDOWS = np.arange(4), np.array([3, 2])
INSIDE, WEIGHTS = np.eye(4, 2, dtype=np.bool_), np.array([1.0, 2.5])


def reckoned(*, inside: object = INSIDE) -> tuple[float, list[str]]:
    """What ``_order_cost`` returns, and what of it was not compiled ahead."""
    from fec.redundancy.label_slots import _order_cost

    missed: list[str] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            CompiledEntry, "missed", staticmethod(lambda symbol, *_: missed.append(symbol))
        )
        return compiled_entry(_order_cost)(COUNT, inside, WINDOWS, WINDOWS - 2, WEIGHTS), missed


def test_everything_that_is_called_is_in_it() -> None:
    """Fails after a change of a step, until `make kernels`, which `make test` calls."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMBA], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-800:]


def test_compiled_kernels_match_numba_and_python() -> None:
    from fec.redundancy.label_slots import _order_cost

    arguments = COUNT, INSIDE, WINDOWS, WINDOWS - 2, WEIGHTS
    assert reckoned() == (_order_cost(*arguments), [])
    assert reckoned()[0] == compiled_entry(_order_cost).by_numba(*arguments) > 0


def test_routine_that_does_not_return_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It could not allocate memory, for example."""
    monkeypatch.setattr(jit, "call", lambda function, block: None)
    with pytest.raises(MemoryError, match="_order_cost_"):
        reckoned()


def test_other_types_and_other_source_are_left_to_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not reckoned()[1] and reckoned(inside=np.asfortranarray(INSIDE))[1]
    monkeypatch.setattr(jit, "_text_of", lambda step: "other source")
    assert reckoned()[1]


@pytest.mark.parametrize("kept", [0, 1, 64, 4095, 4096, 100_000, -1])
def test_shortened_file_is_not_loaded(
    kept: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A shortened library would end the process by SIGBUS as soon as it is used."""
    damaged = tmp_path / "damaged.so"
    damaged.write_bytes(jit.KERNELS.read_bytes()[:kept])
    monkeypatch.setattr(jit, "KERNELS", damaged)
    assert jit.kernels.__wrapped__() is None
    assert f"{damaged} is damaged: its routines are compiled again" in caplog.text


def test_library_with_another_byte_is_not_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    content = bytearray(jit.KERNELS.read_bytes())
    content[len(content) // 2] ^= 1
    damaged = tmp_path / "damaged.so"
    damaged.write_bytes(content)
    monkeypatch.setattr(jit, "KERNELS", damaged)
    assert jit.kernels.__wrapped__() is None


@pytest.mark.parametrize("case", ["processor", "instructions", "damaged", "missing", "asked"])
def test_another_processor_or_file_is_left_alone(
    case: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "damaged.so").write_text("no object")
    changes = {
        "processor": lambda: monkeypatch.setattr(jit.platform, "machine", lambda: "aarch64"),
        "instructions": lambda: monkeypatch.setattr(jit, "PROCESSOR", frozenset({"avx1024"})),
        "damaged": lambda: monkeypatch.setattr(jit, "KERNELS", tmp_path / "damaged.so"),
        "missing": lambda: monkeypatch.setattr(jit, "KERNELS", tmp_path / "missing.so"),
        "asked": lambda: monkeypatch.setenv("TESTBED_KERNELS", "numba"),
    }
    changes[case]()
    assert jit.kernels.__wrapped__() is None
