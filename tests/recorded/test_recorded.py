"""Outputs of commands and documents of the library are recorded.

They change only in a commit that says which ones change, and why.
"""

from __future__ import annotations

import pytest

from tests.recorded.invocations import JSON, TEXT, TWINS
from tests.recorded.record import load_record, run, run_twin


@pytest.mark.parametrize("name", JSON)
def test_exit_code_and_json_are_as_recorded(name: str) -> None:
    assert run(name) == load_record("json", name)


@pytest.mark.parametrize("name", TWINS)
def test_document_of_the_library_is_as_recorded(name: str) -> None:
    assert run_twin(name) == load_record("twins", name)


@pytest.mark.parametrize("name", TEXT)
def test_help_and_refusals_are_as_recorded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(name) == load_record("text", name)
