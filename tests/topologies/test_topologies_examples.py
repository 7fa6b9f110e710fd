"""The examples in the docstrings of topologies and of the drawing's places are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import topologies

MODULES = sorted(f"topologies.{m.name}" for m in pkgutil.iter_modules(topologies.__path__))


@pytest.mark.parametrize("name", [*MODULES, "testbed.report.drawing.node_places"])
def test_a_modules_examples_are_true(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
