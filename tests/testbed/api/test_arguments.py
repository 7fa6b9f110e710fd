"""Arguments of the library: other names, the nearest right one, nodes and links by every name."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import testbed
from testbed.errors import InputError, UsageError
from tests.helpers.commands import in_process

FUNCTIONS = [
    name
    for name in testbed.__all__
    if inspect.isfunction(getattr(testbed, name)) and name != "networks"
]
PETERSEN = nx.petersen_graph()
GRID = nx.grid_2d_graph(3, 3)


@pytest.mark.parametrize("name", [*FUNCTIONS, "Session", "session", "EachLink", "networks"])
def test_unknown_argument_is_usage_error(name: str) -> None:
    with pytest.raises(UsageError, match="no argument 'nmae'"):
        getattr(testbed, name)(nmae=1)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_misspelt_argument_names_the_nearest(name: str) -> None:
    function = getattr(testbed, name)
    argument = list(inspect.signature(function).parameters)[-1]
    misspelt = argument[:-1] + argument[-2:-1] + argument[-1]
    with pytest.raises(UsageError, match=f"no argument '{misspelt}'; did you mean '{argument}'"):
        function(**{misspelt: 1})


@pytest.mark.parametrize(
    ("call", "nearest"),
    [
        (lambda: testbed.stream_plan("ring:4", "s0", "s2", packet_rate=9), "rate_pps"),
        (lambda: testbed.stream_plan("ring:4", "s0", "s2", max_faults=9), "links"),
        (lambda: testbed.stream_plan("ring:4", "s0", "s2", label_order="random"), "labels"),
        (lambda: testbed.stream_plan("ring:4", "s0", "s2", max_overhead=9), "most_overhead"),
        (lambda: testbed.bulk_plan("crossbar:3", message_size=9), "message_bytes"),
        (lambda: testbed.tunnel_plan("ring:4", "s0", "s2", method="ecmp"), "routing"),
        (lambda: testbed.schedule("crossbar:3", routing="liquid"), "method"),
        (lambda: testbed.EachLink(max_faults=3), "most"),  # type: ignore[call-arg]
        (lambda: testbed.ror("ring:4", "s0", "s2", method="ecmp"), "routing"),  # type: ignore[call-arg]
    ],
)
def test_name_of_the_command_line_leads_to_the_argument(
    call: Callable[[], object], nearest: str
) -> None:
    with pytest.raises(UsageError, match=f"did you mean '{nearest}'"):
        call()


def test_method_of_a_session_names_the_nearest_argument() -> None:
    session: Any = object.__new__(testbed.Session)
    with pytest.raises(UsageError, match=r"^Session.exec: .* did you mean 'timeout_s'\?"):
        session.exec("h0", ["true"], timeout=1)
    with pytest.raises(UsageError, match=r"^Session.tunnel: .* did you mean 'routing'\?"):
        session.tunnel("s0", "s1", ruoting="ecmp")


def test_error_within_a_function_is_not_about_its_arguments() -> None:
    def adds(first: int) -> int:
        return first + "1"  # type: ignore[operator]

    from testbed.model.options.arguments import with_checked_arguments

    with pytest.raises(TypeError, match="unsupported operand"):
        with_checked_arguments(adds)(1)


def test_routing_is_accepted_for_method() -> None:
    assert (
        testbed.route("ring:4", "s0", "s2", routing="single").loads
        == testbed.route("ring:4", "s0", "s2", "single").loads
    )
    plan = testbed.stream_plan("ring:4", "s0", "s2", routing="disjoint-2")
    assert repr(plan) == repr(testbed.stream_plan("ring:4", "s0", "s2", method="disjoint-2"))
    frames = ["ring:4", "ring:4"]
    moving = testbed.mobility_plan(frames, "s0", "s2", routing="disjoint-2")
    assert moving == testbed.mobility_plan(frames, "s0", "s2", method="disjoint-2")
    assert testbed.schedule("crossbar:3", scheduling="round-robin").method == "round-robin"


@pytest.mark.parametrize(
    "call",
    [
        lambda: testbed.route("ring:4", "s0", "s2", "ecmp", routing="single"),
        lambda: testbed.stream_plan("ring:4", "s0", "s2", method="ecmp", routing="single"),
        lambda: testbed.schedule("crossbar:3", "exact", scheduling="round-robin"),
    ],
)
def test_two_different_routings_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises(InputError, match="differ; give one of them"):
        call()


@pytest.mark.parametrize("link", ["s0->s1", "s0-s1", ("s0", "s1"), ("s0", "s1", 0)])
def test_load_of_a_route_takes_every_name_of_a_link(link: Any) -> None:
    assert testbed.route("ring:4", "s0", "s2").load(link) == Fraction(1, 2)


@pytest.mark.parametrize("link", ["s0->s2", ("s0", "s9"), ("s0",), 5, ("s0", "s1", 7)])
def test_load_of_an_unknown_link_is_input_error(link: Any) -> None:
    with pytest.raises(InputError, match="link"):
        testbed.route("ring:4", "s0", "s2").load(link)


@pytest.mark.parametrize(
    ("graph", "source", "sink", "ends"),
    [(PETERSEN, 0, 7, ("0", "7")), (GRID, (0, 0), (2, 2), ("0_0", "2_2"))],
)
@pytest.mark.filterwarnings("ignore::topologies.files.foreign.NetworkNote")
def test_nodes_of_a_graph_name_the_ends(
    graph: Any, source: Any, sink: Any, ends: tuple[str, str]
) -> None:
    route = testbed.route(graph, source, sink)
    assert (route.source, route.sink) == ends
    assert testbed.ror(graph, source, sink).route == route
    assert testbed.stream_plan(graph, source, sink).forward.source == ends[0]
    assert testbed.mobility_plan([graph, graph], source, sink).forward.sink == ends[1]
    assert testbed.download_plan(graph, source, sink).forward.source == ends[0]
    assert testbed.metapath_plan(graph, source, sink).source == ends[0]
    assert testbed.tunnel_plan(graph, (source, sink), routing="disjoint-2")
    assert len(testbed.traffic(graph, [(source, sink)])) == 1
    matrix = testbed.demands(graph, {(source, sink): 1e6}, "ecmp", labels="random")
    assert matrix.document["pairs"] == 1
    neighbour = next(iter(graph[source]))
    assert route.load((source, neighbour)) > 0
    assert testbed.draw(graph, route=route, faults=[(source, neighbour)])
    assert testbed.network(graph).without((source, neighbour))


def test_hosts_of_a_graph_send_messages() -> None:
    star = nx.star_graph(3)
    nx.set_node_attributes(star, {1: "host", 2: "host"}, "kind")
    plan = testbed.bulk_plan(star, pattern=[(1, 2)])
    assert [(each.source, each.sink) for each in plan.transfers] == [("1", "2")]


def test_written_graph_has_the_same_nodes(tmp_path: Path) -> None:
    nx.write_graphml(PETERSEN, tmp_path / "petersen.graphml")
    file = str(tmp_path / "petersen.graphml")
    done = in_process("route", file, "--from", "0", "--to", "7", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["source"] == "0"


def test_argument_without_its_name_is_refused_with_the_names() -> None:
    with pytest.raises(UsageError, match=r"too many positional .* only network, between$"):
        testbed.tunnel_plan("ring:4", "s0", "s2")  # type: ignore[arg-type, call-arg]


@pytest.mark.parametrize(("node", "name"), [(9, "9"), ((1, 2), "1_2")])
def test_unknown_node_of_a_graph_is_named(node: Any, name: str) -> None:
    with pytest.raises(InputError, match=f"has no node '{name}'; it has 0, 1"):
        testbed.ror(nx.path_graph(2), 0, node)
    with pytest.raises(UsageError, match="node: got a float; give the id of a node"):
        testbed.route("ring:4", 0.5, 2)  # type: ignore[arg-type]
