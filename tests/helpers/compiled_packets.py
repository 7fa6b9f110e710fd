"""Compiled ends of streams for tests: by numba where what is compiled ahead is of other source, or for other
processors."""

from __future__ import annotations

import pytest

from fec.errors import EngineUnavailable
from fec.jit import CompiledEntry
from fec.protocol.compiled.receiver_steps import TAKE
from testbed.commands.network.compile_ahead import TASKS


def compile_ends(patched: pytest.MonkeyPatch) -> None:
    """Skips where there can be none."""
    try:
        TASKS["packets of streams"]()
    except EngineUnavailable as told:
        if "ISA-L" in str(told) or not isinstance(TAKE, CompiledEntry):
            pytest.skip(str(told))
        patched.setattr(CompiledEntry, "missed", staticmethod(lambda *_: None))
