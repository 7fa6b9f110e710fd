"""The tests of the plain receiver, forged packets among them, hold for the compiled one."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import numpy as np
import pytest

from fec.protocol.compiled.receiver import CompiledReceiver
from fec.protocol.receiver_types import Event
from tests.helpers import delay_loop

NAMES = (
    "forged_packets",
    "keyed_streams",
    "playout_clock",
    "stream_delivery",
    "stream_receiver",
)
SUITES = [import_module(f"tests.fec.protocol.test_{name}") for name in NAMES]
globals().update(
    (f"{name}__{suite.__name__.rpartition('.')[2]}", value)
    for suite in SUITES
    for name, value in vars(suite).items()
    if name.startswith("test_") and callable(value)
)

pytestmark = pytest.mark.long  # the properties in this folder hold the same, packet by packet


class OneByOne(CompiledReceiver):
    """Batches of one packet."""

    within = False

    def receive(self, data: bytes, now_s: float) -> list[Event]:
        if self.within:
            return super().receive(data, now_s)  # out of the ordinary
        part = data[: self.rows.shape[1]]
        self.rows[0, : len(part)], self.lengths[0], self.times[0] = (
            np.frombuffer(part, np.uint8),
            len(part),
            now_s,
        )
        self.within = True
        try:
            return list(self.receive_many(1))
        finally:
            self.within = False


@pytest.fixture(scope="module", autouse=True)
def _compiled_ends(_compiled: None) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(delay_loop, "StreamReceiver", OneByOne)
        yield


def test_the_receiver_of_these_tests_is_compiled() -> None:
    assert isinstance(delay_loop.build_receiver(), CompiledReceiver)
