"""Compiled code is kept under a name that changes with whatever it was compiled from."""

from __future__ import annotations

import pytest

from testbed.compile import fingerprint
from testbed.scheduling.fast import class_ejection
from testbed.scheduling.fast.class_ejection import eject_classes, put_class


def test_a_changed_step_number_or_field_is_compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint((eject_classes, put_class))
    assert before == fingerprint((eject_classes, put_class)) != fingerprint((put_class,))
    with monkeypatch.context() as changed:
        changed.setattr(class_ejection, "TABU_STEPS", 9)
        assert fingerprint((eject_classes, put_class)) != before
    with monkeypatch.context() as changed:
        changed.setattr(class_ejection.ClassTable, "__annotations__", {"units": "Small"})
        assert fingerprint((eject_classes, put_class)) != before
    assert fingerprint((eject_classes, put_class)) == before
