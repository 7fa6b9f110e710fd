from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.compiled_packets import compile_ends


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        compile_ends(patched)
        yield
