"""Requests and answers without a machine: what goes wrong there is told here, by its kind and with the machine's
name."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from testbed.errors import CapabilityError, InputError
from testbed.machines.rpc import MAIN, MachineState, Request, unwrap


def keep(machine: MachineState, name: str, value: object) -> str:
    machine.objects[name] = value
    return machine.name


def refuse(machine: MachineState, kind: str) -> None:
    if kind == "input":
        raise InputError("s9 is no switch")
    raise KeyError("s9")


def through(machine: MachineState, request: Request) -> Any:
    """As over a link: as bytes, there and back."""
    answer = pickle.dumps(machine.perform(pickle.loads(pickle.dumps(request))))
    return unwrap(pickle.loads(answer), machine.name)


def test_a_request_acts_on_the_machines_state_and_its_value_comes_back() -> None:
    machine = MachineState(name="machine-1")
    assert through(machine, (keep, ("net", [1, 2]), MAIN)) == "machine-1"
    assert machine.objects == {"net": [1, 2]}


def test_errors_keep_their_kind_and_name_the_machine() -> None:
    machine = MachineState(name="machine-1")
    with pytest.raises(InputError, match="machine-1: s9 is no switch"):
        through(machine, (refuse, ("input",), MAIN))
    with pytest.raises(RuntimeError, match=r"machine-1: KeyError: 's9' \(test_rpc.py"):
        through(machine, (refuse, ("other",), MAIN))
    assert not issubclass(CapabilityError, InputError)  # kinds are told apart by the exit code
