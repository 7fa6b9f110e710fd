"""Other packages add routings, schedulers and more through our own doors, are judged by our suites, and take nothing
down."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.conformance import check, group_of, registries
from testbed.conformance.routings import routing_checks, static_routing_checks
from testbed.conformance.schedulers import scheduler_checks
from testbed.conformance.suites import code_checks
from testbed.errors import InputError
from testbed.model.schedule import Schedule
from testbed.routing import route_by_name
from testbed.routing.baselines import single_path
from testbed.routing.methods import ROUTINGS
from testbed.scheduling.methods import schedule_by_name
from tests.helpers.paths import ROOT
from tests.helpers.warm import TESTBED, run
from topologies.registry import PluginError, Registry
from topologies.routing_tables import STATIC_ROUTINGS

# Built-in parts whose suites take more than a second. Others of the same groups run in `make test`.
SLOW = {"balanced", "least-ror:B", "cp-sat"}
OURS = [
    pytest.param(group, name, marks=[pytest.mark.long] if name in SLOW else [])
    for group, registry in registries().items()
    for name in registry.builtin_names()
]


@pytest.mark.parametrize(("group", "name"), OURS)
def test_built_in_plugins_pass_the_suite_of_their_group(group: str, name: str) -> None:
    verdict = check(group, name)
    assert verdict.passed, [f"{c.name}: {c.detail}" for c in verdict.checks if not c.passed]


def wrong(checks: list[Any]) -> str:
    return "; ".join(f"{c.name}: {c.detail}" for c in checks if not c.passed)


@pytest.fixture(autouse=True)
def registries_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    for registry in (ROUTINGS, STATIC_ROUTINGS):
        for part in ("_things", "_titles"):
            monkeypatch.setattr(registry, part, dict(getattr(registry, part)))


def _half(network: Any, source: str, sink: str) -> Any:
    found = single_path(network, source, sink)
    broken = object.__new__(type(found))
    broken.__dict__.update(found.__dict__ | {"loads": tuple(load / 2 for load in found.loads)})
    return broken


def _by_chance(network: Any, source: str, sink: str, calls: list[int] = []) -> Any:  # noqa: B006 - counts its calls
    calls.append(1)
    return route_by_name(network, source, sink, "single" if len(calls) % 2 else "capillary")


@pytest.mark.parametrize(
    ("routing", "says"),
    [
        (_half, "sends out 1/2 more"),
        (_by_chance, "two calls gave two routes"),
        (lambda network, source, sink: single_path(network, sink, source), "flow is conserved"),
        (lambda network, source, sink: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_wrong_routing_fails_its_suite(routing: Callable[..., Any], says: str) -> None:
    checks = routing_checks(routing)
    if says == "flow is conserved":  # the other way round is a sound route of another pair
        with pytest.raises(PluginError, match="no route from"):
            ROUTINGS.register("backwards", routing)
            route_by_name(*_ring(), "backwards")
        return
    assert says in wrong(checks)


def _ring() -> tuple[Any, str, str]:
    from topologies import load_network

    return load_network("ring:4"), "s0", "s1"


def _one_frame(traffic: Any, **_: Any) -> Schedule:
    return Schedule.of(
        np.zeros(len(traffic), dtype=np.int32), traffic.bottleneck_load, method="one"
    )


def _boasting(traffic: Any, **options: Any) -> Schedule:
    return replace(schedule_by_name(traffic, "round-robin", **options), proved="no-liquid-schedule")


@pytest.mark.parametrize(
    ("scheduler", "says"),
    [(_one_frame, "both use link"), (_boasting, "there is one"), (lambda t, **_: t, "UsageError")],
)
def test_wrong_scheduler_fails_its_suite(scheduler: Any, says: str) -> None:
    assert says in wrong(scheduler_checks(scheduler))


class Repeating:
    """No code at all: symbol n is source symbol n mod K."""

    name, max_symbols, excess = "repeating", 1000, 0

    def encoder(self, data: bytes, symbol_bytes: int) -> Any:
        symbols = [data[at : at + symbol_bytes] for at in range(0, len(data), symbol_bytes)]

        class Encoder:
            def symbol(self, number: int) -> bytes:
                return symbols[number % len(symbols)]

        return Encoder()

    def decoder(self, symbols: int, symbol_bytes: int) -> Any:
        have: dict[int, bytes] = {}

        class Decoder:
            def add(self, number: int, symbol: bytes) -> bytes | None:
                have[number] = symbol
                return b"".join(have[n] for n in sorted(have)) if len(have) == symbols else None

        return Decoder()


def test_wrong_code_fails_its_suite() -> None:
    assert "to other bytes" in wrong(code_checks(Repeating))


def test_wrong_static_routing_fails_its_suite() -> None:
    from topologies.routing_tables import shortest_path_routing

    def build(network: Any) -> Any:
        found = shortest_path_routing(network)
        return lambda source, sink: found(source, sink)[:-1]

    STATIC_ROUTINGS.register("too-short", build)
    assert "it ends at" in wrong(static_routing_checks("too-short", build))


def test_name_that_is_taken_is_refused() -> None:
    doubles: Registry[Any] = Registry(
        "testbed.nothing", "thing", lambda thing: None if callable(thing) else "no function"
    )
    doubles.register("one", print)
    with pytest.raises(PluginError, match="the name is taken"):
        doubles.register("one", len)
    with pytest.raises(PluginError, match="no function"):
        doubles.register("two", 2)


# what is installed


Commands = Callable[..., subprocess.CompletedProcess[str]]


def commands_at(site: Path) -> Commands:
    """``testbed``'s commands where what is in that folder is installed."""
    there = {**os.environ, "PYTHONPATH": str(site)}
    return lambda *words: run(
        [*TESTBED, *words], capture_output=True, text=True, cwd=site, env=there
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Commands:
    """The example package and those in ``plugins/``, installed into a directory of their own."""
    base = tmp_path_factory.mktemp("plugin")
    sources = [
        ROOT / "examples" / "plugin",
        *(file.parent for file in ROOT.glob("plugins/*/pyproject.toml")),
    ]
    copies = [str(shutil.copytree(source, base / "source" / source.name)) for source in sources]
    words = [
        "install",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--quiet",
        "--target",
        str(base / "site"),
    ]
    pip = [sys.executable, "-m", "pip", *words, *copies]
    done = subprocess.run(pip, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    return commands_at(base / "site")


def test_installed_routing_and_scheduler_are_methods_of_the_commands(installed: Commands) -> None:
    done = installed(
        "route", "swiss-t1", "--from", "s1", "--to", "s6", "--routing", "widest", "--json"
    )
    links = json.loads(done.stdout)["links"]
    assert links[0]["source"] == "s1" and {link["load"] for link in links} == {"1"}
    done = installed("schedule", "crossbar:4", "--scheduling", "longest-first", "--json")
    assert json.loads(done.stdout)["length"] == 4
    unknown = installed("route", "ring:4", "--from", "s0", "--to", "s2", "--routing", "widdest")
    assert unknown.returncode == 2 and "widest" in unknown.stderr


def test_suites_judge_the_installed_package(installed: Commands) -> None:
    for name, group in (
        ("widest", "testbed.routings"), ("longest-first", "testbed.schedulers"),
        ("xml", "testbed.schedule_formats"), ("et.json", "testbed.traffic_formats"),
    ):  # fmt: skip
        done = installed("plugins", "check", name, "--group", group, "--json")
        document = json.loads(done.stdout)
        assert done.returncode == 0 and document["group"] == group, done.stdout
    listed = json.loads(installed("plugins", "list", "--json").stdout)["groups"]
    assert listed["testbed.routings"]["plugins"] == [
        {"name": "widest", "package": "testbed-plugin-example 1.0", "error": None}
    ]


def test_example_package_is_short() -> None:
    for file in (ROOT / "examples" / "plugin").glob("*.py"):
        assert len(file.read_text().splitlines()) < 50, file


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Commands:
    """A package whose plug-ins do all that plug-ins must not do."""
    site = tmp_path_factory.mktemp("broken")
    description = site / "bad_plugins-0.1.dist-info"
    description.mkdir()
    (description / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: bad-plugins\nVersion: 0.1\n"
    )
    (description / "entry_points.txt").write_text(
        "[testbed.routings]\nmissing = no_such_module:route\nnumber = bad_plugins:NUMBER\nleaving = leaving:route\n"
        "capillary = bad_plugins:failing\nfailing = bad_plugins:failing\n"
        "[testbed.schedulers]\nliar = bad_plugins:liar\n[testbed.topologies]\nnowhere = bad_plugins:failing\n"
        "[testbed.experiments]\nghost = no_such_module:STUDY\n"
    )
    (site / "bad_plugins.py").write_text(
        "import numpy\nfrom testbed.model.schedule import Schedule\nNUMBER = 5\n"
        "def failing(network, source, sink): return {}['key']\n"
        "def liar(traffic, **_):\n"
        "    return Schedule.of(numpy.zeros(len(traffic), dtype='int32'), 1, method='liar')\n"
    )
    (site / "leaving.py").write_text("raise SystemExit('good bye')\n")
    return commands_at(site)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("route ring:4 --from s0 --to s2 --routing missing", "No module named 'no_such_module'"),
        ("route ring:4 --from s0 --to s2 --routing number", "it is no function"),
        ("route ring:4 --from s0 --to s2 --routing leaving", "good bye"),
        ("route ring:4 --from s0 --to s2 --routing failing", "KeyError: 'key'"),
        (
            "schedule crossbar:4 --scheduling liar",
            "gave no schedule: transfers 0 and 1 both use link",
        ),
        ("topology show nowhere", "it is no topologies.catalog.CatalogueEntry"),
        ("experiment run ghost", "No module named 'no_such_module'"),
    ],
)
def test_broken_plugin_is_named_with_its_package_in_one_line(
    broken: Commands, words: str, says: str
) -> None:
    done = broken(*words.split())
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "bad-plugins 0.1" in done.stderr and says in done.stderr


def test_broken_plugins_take_nothing_else_down(broken: Commands) -> None:
    done = broken("route", "ring:4", "--from", "s0", "--to", "s2", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["method"] == "capillary"
    assert broken("topology", "list").returncode == 0
    assert broken("schedule", "crossbar:4", "--json").returncode == 0
    listed = broken("experiment", "list", "--json")
    assert listed.returncode == 0 and len(json.loads(listed.stdout)["experiments"]) > 20
    done = broken("plugins", "list")
    assert (
        done.returncode == 0
        and "capillary (package bad-plugins 0.1); BROKEN: its name is taken" in done.stdout
    )


def test_unknown_group_and_name_are_refused() -> None:
    with pytest.raises(InputError, match=r"give one of testbed\.routings"):
        check("testbed.nothing", "x")
    with pytest.raises(InputError, match="there is no 'x'"):
        check("testbed.routings", "x")


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("testbed.routings", "capillary:abc"),
        ("testbed.routings", "capillary:0"),
        ("testbed.routings", "least-fec:2"),
        ("testbed.demand_routings", "ksp:none"),
    ],
)
def test_parameter_that_the_routing_refuses_is_not_replaced(group: str, name: str) -> None:
    with pytest.raises(InputError, match=name):
        check(group, name)


def test_group_is_found_by_a_name_with_a_parameter() -> None:
    assert group_of("capillary:3") == "testbed.routings"
    with pytest.raises(InputError, match=r"in testbed\.routings, testbed\.demand_routings"):
        group_of("smore:3")
    with pytest.raises(InputError, match="no group has it"):
        group_of("ecmp:3")


EVERY_KIND = """
from dataclasses import dataclass
from fec.code.block_codes import ReedSolomonBlocks
from testbed.model.verdict import Claim, Verdict
from testbed.model.workload import Judgement, Workload
from testbed.routing.baselines import ecmp, single_path
from topologies.catalog import CatalogueEntry, Parameter
from topologies.network import Link, Network, Node
from topologies.routing_tables import shortest_path_routing

class Code(ReedSolomonBlocks):
    name = "rs-again"

def last_resort(text):
    return single_path if text == "1" else ecmp

def triangle(n, capacity_bps, delay_s):
    nodes = tuple(Node(id=f"{kind[0]}{i}", kind=kind) for kind in ("switch", "host") for i in range(n))
    pairs = [(f"s{i}", f"s{(i + 1) % n}") for i in range(n)] + [(f"h{i}", f"s{i}") for i in range(n)]
    both = [(a, b) for pair in pairs for a, b in (pair, pair[::-1])]
    links = tuple(Link(source=a, target=b, capacity_bps=capacity_bps, delay_s=delay_s) for a, b in both)
    return Network(name=f"cycle:{n}", nodes=nodes, links=links)

CYCLE = CatalogueEntry(name="cycle", pattern="cycle:n", description="Switches in a cycle", positional=1, build=triangle,
                       parameters=(Parameter(name="n", kind="whole", default="3", description="switches"),))

@dataclass(frozen=True)
class Sum:
    numbers: tuple

def judge(plan, measured):
    verdict = Verdict(checks=(Claim("sum").equal(6, measured).against(0.0, "nothing added"),))
    document = {"sum": measured, "verdict": verdict.to_json()}
    return Judgement(verdict=verdict, document=document, rows=({"sum": measured},))

def example():
    return Sum((1, 2, 3))

SUM = Workload(name="sum", plan=Sum, judge=judge, simulate=lambda plan, _: sum(plan.numbers), example=example)
"""


@pytest.fixture(scope="module")
def every_kind_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package with a plug-in in every group that works."""
    site = tmp_path_factory.mktemp("every_kind")
    description = site / "every_kind-2.0.dist-info"
    description.mkdir()
    (description / "METADATA").write_text("Metadata-Version: 2.1\nName: every-kind\nVersion: 2.0\n")
    groups = {
        "routings": "resort:n = every_kind:last_resort",
        "codes": "rs-again = every_kind:Code",
        "interconnect_routings": "again = every_kind:shortest_path_routing",
        "topologies": "cycle = every_kind:CYCLE",
        "workloads": "sum = every_kind:SUM",
    }
    (description / "entry_points.txt").write_text(
        "".join(f"[testbed.{g}]\n{line}\n" for g, line in groups.items())
    )
    (site / "every_kind.py").write_text(EVERY_KIND)
    return site


@pytest.fixture(scope="module")
def every_kind(every_kind_site: Path) -> Commands:
    return commands_at(every_kind_site)


@pytest.mark.parametrize("name", ["resort:n", "rs-again", "again", "cycle", "sum"])
def test_suite_of_every_group_passes_what_works(every_kind: Commands, name: str) -> None:
    done = every_kind("plugins", "check", name)
    assert done.returncode == 0 and "verdict: passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "route cycle:5 --from s0 --to s2 --routing resort:2 --json",
        "topology show cycle:4 --json",
        "simulate cycle:4 --routing again --load 0.05 --duration 0.001 --json",
        "bulk cycle:3 --routing again --fabric simulator --message-size 10kB --no-comparison --json",
        "download swiss-t1 --from s1 --to s6 --code rs-again --file-size 100kB --faults /dev/null --fabric simulator"
        " --json",
        "demands cycle:4 --routing resort:1 --json",
    ],
)
def test_plugins_of_every_kind_work_in_the_commands(
    every_kind: Commands, words: str, tmp_path: Path
) -> None:
    listed = [
        str(tmp_path / "none.json") if word == "/dev/null" else word for word in words.split()
    ]
    (tmp_path / "none.json").write_text("[]")
    done = every_kind(*listed)
    assert done.returncode in (0, 1, 5) and json.loads(done.stdout), done.stderr


def test_plan_of_another_packages_workload_is_run(every_kind_site: Path) -> None:
    script = "import testbed, every_kind; print(testbed.run(every_kind.Sum((1, 2, 3))).passed)"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{every_kind_site}"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stdout == "True\n", done.stderr
