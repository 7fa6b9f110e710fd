"""Public signatures have precise types: each use of ``Any`` is listed with its reason."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator

from tests.helpers.paths import ROOT

COMPILED = (
    "/compiled/",
    "fec/jit.py",
    "testbed/jit.py",
    "routing/flows/flow_steps.py",
    "scheduling/fast/",
)
"""Compiled code and what compiles it: its values have the kinds that numba finds."""
WITH_ANY = {
    "a value of JSON, of whatever kind; a study's rows are such": (
        "topologies/text/json_types.py Json", "topologies/text/json_types.py JsonObject",
        "testbed/model/studies/samples.py Reader", "testbed/model/studies/samples.py reader",
        "testbed/model/studies/samples.py grouped", "experiments/interconnect/samples.py performances",
        "experiments/interconnect/samples.py failure_performances",
    ),
    "any workload; its own options, request of machines, view and judgement, which only it and higher floors know": (
        "testbed/model/workload.py Work", "testbed/api/runs.py AnyResult", "testbed/model/workload.py How.options",
        "testbed/model/workload.py How.machines", "testbed/model/workload.py Workload.build",
        "testbed/model/workload.py Workload.instead", "testbed/model/workload.py Workload.fitted",
        "testbed/model/workload.py Workload.variants", "testbed/model/workload.py Workload.view",
        "testbed/model/workload.py Workload.closing", "testbed/model/workload.py Workload.keeps",
    ),
    "keywords handed on whole to what declares them; an option is a field of the type that is written there": (
        "testbed/api/session.py Session.popen",
        "testbed/emulation/network/emulated_network.py EmulatedNetwork.run_in_host",
        "testbed/emulation/sandbox/program_start.py start_program",
        "testbed/machines/adapters/distributed_network.py over_machines",
        "testbed/machines/adapters/distributed_network.py distributed_network",
        "testbed/machines/adapters/platform.py network_up", "testbed/machines/adapters/platform.py here",
        "testbed/model/options/option.py option", "testbed/model/options/option.py Option.switches_only",
        "testbed/report/drawing/svg_figures.py saved_figure", "testbed/report/terminal.py Terminal.render_str",
        "testbed/stream/fabric.py open_fabric", "experiments/interconnect/study_points.py drb_point",
        "experiments/interconnect/study_points.py drb_points", "fec/protocol/batches.py BatchSender.__init__",
    ),
    "a row of a table: numpy's in compiled ends of streams, a list in plain ones": (
        "fec/protocol/path_counts.py count", "fec/protocol/probation.py Schedule.__init__",
        "fec/protocol/probation.py earliest_us", "fec/protocol/probation.py half_arrived",
    ),
    "names of nodes in a graph of networkx, which may be anything": (
        "testbed/model/naming/names.py NodeName",
        "testbed/model/naming/names.py known_link",
        "topologies/files/foreign_fields.py tuple_of_text",
    ),
    "Mininet has no types": (
        "testbed/emulation/network/mininet_network/recording.py parameters_of",
        "testbed/emulation/network/mininet_network/net.py ScriptedMininet.__init__",
        "testbed/emulation/network/mininet_network/nodes.py LateIntf.index",
        "testbed/emulation/network/mininet_network/nodes.py late",
    ),
    "found by its name: things of several kinds, and functions of a name's text that give the function of that name": (
        "testbed/conformance/suites.py registries", "testbed/model/workload.py lazily",
        "testbed/routing/demands/methods.py DEMAND_ROUTINGS", "testbed/routing/methods.py ROUTINGS",
        "testbed/model/file_formats.py TrafficFormat.read",
    ),
    "what another process, machine or adapter keeps or answers": (
        "testbed/machines/adapters/cluster.py StartLimit.results",
        "testbed/machines/rpc.py MachineState.objects", "testbed/stream/emulated/endpoints.py EndpointProcess.result",
        "sfio_emu/ports.py Connection.stream", "sfio_emu/message_bodies.py unpack",
        "testbed/tunnel/prediction.py RivalPrediction.wire_bytes",
    ),
}  # fmt: skip
"""Public names outside compiled code that say Any, by the reason why no other type is plainer."""

ARRAYS = ("NDArray", "integer", "floating", "number")


def modules() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "topologies", "fec", "sfio_emu", "testbed", "experiments"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [
        name for name in listed.stdout.split() if name.endswith(".py") and (ROOT / name).is_file()
    ]


def says_any(annotation: ast.AST | None) -> bool:
    """But for arrays of any precision or dtype."""
    if (
        isinstance(annotation, ast.Subscript)
        and ast.unparse(annotation.value).rpartition(".")[2] in ARRAYS
    ):
        return False
    named = isinstance(annotation, ast.Name) and annotation.id == "Any"
    return named or any(
        map(says_any, ast.iter_child_nodes(annotation) if annotation is not None else ())
    )


def public_with_any(body: list[ast.stmt], within: str = "") -> Iterator[str]:
    """Names of functions, fields and types of a module or class whose annotation says Any."""
    for one in body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            name, given = one.name, one.args
            every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            said = [
                one.returns,
                *(argument.annotation for argument in every if argument is not None),
            ]
        elif isinstance(one, ast.AnnAssign):
            name, said = ast.unparse(one.target), [one.annotation]
        elif isinstance(one, ast.Assign):
            typed = isinstance(one.value, ast.Name | ast.Subscript | ast.BinOp)
            name, said = ast.unparse(one.targets[0]), [one.value] if typed else []
        elif isinstance(one, ast.ClassDef) and not one.name.startswith("_"):
            yield from public_with_any(one.body, f"{one.name}.")
            continue
        else:
            continue
        if any(map(says_any, said)) and (not name.startswith("_") or name == "__init__"):
            yield within + name


def test_no_public_signature_says_any() -> None:
    found = {
        f"{name} {each}"
        for name in modules()
        if not any(part in name for part in COMPILED)
        for each in public_with_any(ast.parse((ROOT / name).read_text()).body)
    }
    named = {each for every in WITH_ANY.values() for each in every}
    assert sorted(found - named) == [], "give them their types, or a reason"
    assert sorted(named - found) == [], "no exception is needed any more"
