"""Exit code 1 says that a check failed: no error has it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import testbed.errors
from testbed.bulk.messages import MessageError
from testbed.striping.emulated.fragmented_access import reported_by_ranks
from testbed.striping.emulated.program_run import ProgramEnd


def test_no_error_has_the_code_of_a_failed_check() -> None:
    kinds = [
        kind
        for kind in vars(testbed.errors).values()
        if isinstance(kind, type) and issubclass(kind, Exception)
    ]
    assert kinds and all(kind.exit_code in (2, 3, 4, 5, 70, 124) for kind in kinds)


def test_bytes_that_are_no_message_make_a_run_invalid() -> None:
    assert MessageError.exit_code == 4


def test_a_rank_that_dies_makes_a_run_invalid() -> None:
    network: Any = SimpleNamespace(
        root=Path("nowhere"),
        placement=SimpleNamespace(file_name=lambda: "f"),
        run=lambda words, time_limit_s: ProgramEnd(exit_code=137, rank=1),
    )
    with pytest.raises(testbed.errors.InvalidRunError, match=r"rank 1 .* exit code 137"):
        reported_by_ranks(network, {})
