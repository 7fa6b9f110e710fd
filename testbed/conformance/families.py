"""Judges a family of networks, and a workload."""

import json
from functools import cache

from testbed.conformance.problem_checks import finding
from testbed.model.verdict import Check
from testbed.model.wiring import wire
from testbed.model.workload import How, Judgement, Work
from topologies import Network, load_network
from topologies.catalog import CatalogueEntry
from topologies.files.node_link import write_document


def family_checks(entry: CatalogueEntry) -> list[Check]:
    """By its defaults where every parameter has one, else by the pattern that it shows."""
    name = entry.name if all(p.default is not None for p in entry.parameters) else entry.pattern

    def network() -> Network:
        return load_network(name)

    return [
        finding(f"{name}: it builds a network", lambda: None if network().links else "it has no link"),
        finding(f"{name}: the same twice", lambda: None if network() == network() else "two calls gave two networks"),
        finding(f"{name}: every link joins two of its nodes", lambda: _stray(network())),
        finding(f"{name}: JSON there and back", lambda: _changed(network())),
        finding(f"{name}: it can be wired", lambda: None if wire(network()).cables else "no cable"),
        finding(f"{name}: it is described", lambda: None if entry.description and entry.pattern else "say what it is"),
    ]


def _stray(network: Network) -> str | None:
    nodes = {node.id for node in network.nodes}
    return next((f"{x.label} leaves the network" for x in network.links if not {x.source, x.target} <= nodes), None)


def _changed(network: Network) -> str | None:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "network.json"
        file.write_text(write_document(network))
        again = load_network(str(file))
    return (
        None
        if (again.nodes, again.links) == (network.nodes, network.links)
        else "what is read differs from what was written"
    )


def workload_checks(workload: Work) -> list[Check]:
    """On the simulator, by the workload's own ``example`` plan."""
    if workload.example is None:
        missing = "give Workload(example=...): a function that makes a small plan"
        return [finding("it gives an example plan", lambda: missing)]
    example = workload.example
    if workload.simulate is None and workload.carry is None:
        return [finding("its example is one of its plans", lambda: _stranger(workload, example()))]

    def again() -> Judgement:
        plan = example()
        return workload.judge(plan, workload.measured(plan, How(fabric="simulator"), None))

    judged = cache(again)
    return [
        finding("its example is one of its plans", lambda: _stranger(workload, example())),
        finding("a run ends in checks", lambda: None if judged().verdict.checks else "there is no check"),
        finding("its example passes", lambda: _failed(judged())),
        finding(
            "the same twice in virtual time", lambda: None if judged().verdict == again().verdict else "two verdicts"
        ),
        finding("its document and rows are JSON, with the verdict", lambda: _no_document(judged())),
    ]


def _stranger(workload: Work, plan: object) -> str | None:
    return None if isinstance(plan, workload.plan) else f"a {type(plan).__name__} is no {workload.plan.__name__}"


def _failed(judged: Judgement) -> str | None:
    wrong = [check.name for check in judged.verdict.checks if not check.passed]
    return judged.verdict.invalid or (f"these do not hold: {', '.join(wrong)}" if wrong else None)


def _no_document(judged: Judgement) -> str | None:
    document = json.loads(json.dumps(judged.document, allow_nan=False))
    json.dumps([dict(row) for row in judged.rows])
    return None if "verdict" in document else "the document has no verdict"
