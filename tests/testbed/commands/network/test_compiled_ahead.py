"""What `doctor --compile` compiles is what a stream, a read and a write use: nothing is left to their first use."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import testbed
from fec.jit import CompiledEntry
from sfio_emu import StripedFile
from testbed.commands.network.compile_ahead import TASKS
from tests.helpers.listeners import listening, session_of

KERNELS = ("list_fragments", "gather_list", "scatter_list")


def test_striped_files_compile_nothing_more_when_they_are_used(tmp_path: Path) -> None:
    TASKS["striped files"]()
    from sfio_emu.layout import kernels

    ahead = {name: list(getattr(kernels, name).signatures) for name in KERNELS}
    assert all(ahead.values())
    data = np.random.default_rng(1).integers(0, 256, 3_000_000, dtype=np.uint8)
    offsets, places, sizes = np.arange(1000) * 300, np.arange(1000) * 75, np.full(1000, 75)
    with listening(tmp_path) as addresses:
        file = StripedFile.open("p1/a;p1/b", 75, session=session_of(addresses))
        file.pwrite(data.data, 0)
        assert file.pread(len(data), 0) == data.tobytes()
        file.pwrite_blocks(data.data, offsets, places, sizes)
        back = np.zeros(75_000, dtype=np.uint8)
        file.pread_blocks(back.data, offsets, places, sizes)
        assert np.array_equal(back, data[:75_000])
        file.close()
    assert {name: list(getattr(kernels, name).signatures) for name in KERNELS} == ahead


def test_planning_a_stream_compiles_nothing_more(
    monkeypatch,
) -> None:
    made: list[str] = []
    monkeypatch.setattr(
        CompiledEntry, "missed", staticmethod(lambda symbol, *_: made.append(symbol))
    )
    TASKS["orders of labels"]()
    ahead = set(made)
    testbed.stream_plan(testbed.network("torus:3x3"), "s0_0", "s1_1")
    assert set(made) == ahead
