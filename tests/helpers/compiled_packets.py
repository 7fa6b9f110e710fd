"""Compiled ends of streams for tests: by numba where what is compiled ahead is of other source, or for other
processors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from fec.errors import EngineUnavailable
from fec.jit import CompiledEntry
from fec.protocol.compiled.receiver_steps import TAKE
from fec.redundancy.block_size_control import MAX_BLOCK
from testbed.commands.network.compile_ahead import TASKS


def compile_ends(patched: pytest.MonkeyPatch) -> None:
    """Skips where there can be none."""
    try:
        TASKS["packets of streams"]()
    except EngineUnavailable as told:
        if "ISA-L" in str(told) or not isinstance(TAKE, CompiledEntry):
            pytest.skip(str(told))
        patched.setattr(CompiledEntry, "missed", staticmethod(lambda *_: None))


@dataclass(frozen=True)
class PlannedBlockSize:
    """N by the time at which a block begins; reports change nothing."""

    size_at: Callable[[float], int]
    largest: int = MAX_BLOCK
    late_parity: bool = False
    loss: float = 0.0

    def block_size_at(self, begins_s: float) -> int:
        return self.size_at(begins_s)

    def on_packet_reports(self, *_: object) -> None:
        """Nothing is learnt."""

    def restart_estimate(self) -> None:
        """There is no estimate."""
