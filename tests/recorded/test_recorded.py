"""Outcomes of commands and of their ways through the library are frozen: they change only where a commit says which and
why."""

from __future__ import annotations

import pytest

from tests.recorded.invocations import JSON, TEXT, TWINS
from tests.recorded.judged import JUDGED
from tests.recorded.record import COMPUTED, computed, kept, run, twin


@pytest.mark.parametrize("name", JSON)
def test_exit_code_and_json_are_as_recorded(name: str) -> None:
    assert run(name) == kept("json", name)


@pytest.mark.parametrize("name", TWINS)
def test_document_of_the_library_is_as_recorded(name: str) -> None:
    assert twin(name) == kept("twins", name)


@pytest.mark.parametrize("name", TEXT)
def test_help_and_refusals_are_as_recorded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(name) == kept("text", name)


# `make test` judges streams over other networks, and the stream commands above.
DEAR = {"judged-streams", "judged-impaired-streams"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if name in DEAR else [])
        for name in (*COMPUTED, *JUDGED)
    ],
)
def test_what_is_computed_and_judged_is_as_recorded(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found, known = computed(name), kept("computed", name)
    for part in {**known, **found}:
        assert found.get(part) == known.get(part), part
