"""Packets and receivers for the tests of receivers with the C module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from fec.protocol.row_seals import c_module
from fec.redundancy.block_size_control import MAX_BLOCK


def skip_without_c_module() -> None:
    """Skip the test if no C compiler was there when the package was installed."""
    if c_module() is None:
        pytest.skip("no C compiler made fec.protocol._packets")


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
