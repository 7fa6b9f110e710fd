"""Compiled by numba where what is compiled ahead is of other source, or for other processors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fec.errors import EngineUnavailable
from fec.jit import CompiledEntry
from testbed.commands.network.compile_ahead import TASKS


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        try:
            TASKS["packets of streams"]()
        except EngineUnavailable:
            patched.setattr(CompiledEntry, "missed", staticmethod(lambda *_: None))
        yield
