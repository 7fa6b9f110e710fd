"""When a fault on a crossing cable is in force: told by the ends of a network whose machines are stand-ins that answer
late."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.errors import InvalidRunError, MachineDiedError
from testbed.machines.adapters import rpc_network
from testbed.machines.adapters.distributed_network import DistributedNetwork, distributed_network
from testbed.machines.partition import Placement
from testbed.machines.tunnel_plan import Carrier
from testbed.model.wiring import wire
from topologies import load_network

LATE_S = {0: 100.0, 1: 100.2}
"""When each machine did what it was asked."""


class Answered:
    def __init__(self, value: float) -> None:
        self._value = value

    def result(self, _: float) -> float:
        return self._value


class LateMachines:
    """Two machines whose clocks are ours; ``asked``: (machine, function) in order."""

    names = ("m0", "m1")

    def __init__(self) -> None:
        self.asked: list[tuple[int, str]] = []

    def call(self, number: int, function: Callable[..., Any], *_: object, **__: object) -> Answered:
        self.asked.append((number, function.__name__))
        return Answered(LATE_S[number])

    def all(self, function: Callable[..., Any], *_: object) -> None:
        raise AssertionError(f"{function.__name__} of all machines")

    def ours_s(self, _: int, theirs_s: float) -> float:
        return theirs_s

    theirs_s = ours_s


def spread() -> tuple[DistributedNetwork, LateMachines]:
    machines = LateMachines()
    wiring = wire(load_network("ring:4"))
    place = {node.id: int(node.id[1:] in ("2", "3")) for node in wiring.network.nodes}
    placement = Placement(machines=2, machine_of=place)
    return DistributedNetwork(machines, wiring, placement, 1500), machines  # type: ignore[arg-type]


@pytest.mark.parametrize(("link", "lost_s"), [(("s1", "s2", 0), 100.0), (("s2", "s1", 0), 100.2)])
def test_a_blackhole_is_in_force_where_the_link_is_sent(
    link: tuple[str, str, int], lost_s: float
) -> None:
    network, machines = spread()
    assert network.set_loss(link, 1.0) == lost_s == network.set_loss(link, 0.0)
    assert sorted(machines.asked[:2]) == [(0, "set_loss"), (1, "set_loss")]
    assert network.gaps_s == []  # nothing is under way to an end that is down


def test_a_cable_is_cut_with_its_first_end_and_mended_with_its_last() -> None:
    network, machines = spread()
    assert network.set_link(("s1", "s2", 0), False) == 100.0
    assert network.set_link(("s1", "s2", 0), True) == 100.2
    assert machines.asked == [(0, "set_link"), (1, "set_link")] * 2
    assert network.gaps_s == pytest.approx([0.2, 0.2])


def test_each_machine_is_asked_for_its_part_only() -> None:
    network, machines = spread()
    network.set_link(("s0", "s1", 0), False)
    network.set_loss(("s1", "s2", 0), 0.5, "forward")
    assert machines.asked == [
        (0, rpc_network.set_link.__name__),
        (0, rpc_network.set_loss.__name__),
    ]


class KeptMachines:
    """One machine that is asked again and again; ``asked``: the functions, in order."""

    names, run = ("m0",), 1
    ours_s = theirs_s = LateMachines.ours_s
    carriers = (Carrier(interface="u", address="10.9.0.1", mtu=9000, port=20000),)
    facts = (SimpleNamespace(mtu=9000),)

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def call(self, _: int, function: Any, *__: Any) -> Any:
        self.asked.append(function)
        return SimpleNamespace(result=lambda _: {})

    def all(self, function: Any) -> None:
        self.asked.append(function)


@pytest.mark.parametrize(
    ("error", "taken_down"),
    [(None, True), (InvalidRunError("lost"), True), (MachineDiedError("died", 0, 1.0), False)],
)
def test_network_ends_with_its_run_so_that_the_next_can_be_built(
    error: InvalidRunError | None, taken_down: bool
) -> None:
    machines, wiring = KeptMachines(), wire(load_network("ring:3"))
    placement = Placement(machines=1, machine_of={node.id: 0 for node in wiring.network.nodes})

    def run() -> None:
        with distributed_network(machines, wiring, placement):  # type: ignore[arg-type]
            if error is not None:
                raise error

    if error is None:
        run()
    else:
        with pytest.raises(type(error)):
            run()
    assert (rpc_network.remove_network in machines.asked) is taken_down
