"""Names that were renamed are found under their old names, with a warning."""

from __future__ import annotations

import importlib

import pytest

from testbed.renamed import RENAMED


@pytest.mark.parametrize(
    ("module", "old", "new"), [(m, o, n) for m, names in RENAMED.items() for o, n in names.items()]
)
def test_an_old_name_is_the_new_one_and_says_so(module: str, old: str, new: str) -> None:
    home = importlib.import_module(module)
    with pytest.warns(DeprecationWarning, match=f"{old} is now {new}"):
        found = getattr(home, old)
    place, _, name = new.rpartition(".")
    assert found is getattr(importlib.import_module(place or module), name)
    assert old not in vars(home)


def test_other_names_are_missing_as_ever() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        importlib.import_module("testbed.errors").nothing  # noqa: B018
