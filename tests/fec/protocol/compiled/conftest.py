from __future__ import annotations

import pytest

from tests.helpers.compiled_packets import skip_without_c_module


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> None:
    skip_without_c_module()
