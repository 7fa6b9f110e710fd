"""The library's calls give what the commands give, and refuse what they cannot use with the testbed's own errors."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fec
import testbed
from testbed.errors import InputError, TestbedError, UsageError
from testbed.model.traffic import Traffic
from testbed.routing import capillary_route, route_by_name
from testbed.routing.baselines import single_path
from testbed.scheduling.checker import check_schedule
from testbed.scheduling.fast.portfolio import liquid_schedule
from tests.helpers.commands import in_process
from tests.helpers.paths import ROOT
from tests.helpers.warm import run
from topologies import Link, load_network
from topologies.direct_networks import ring
from topologies.errors import TopologyError

WRONG: list[Callable[[], Any]] = [
    lambda: liquid_schedule([[0, 1], [1, 2]]),  # type: ignore[arg-type]
    lambda: testbed.schedule([["a", "b"]]),  # type: ignore[arg-type]
    lambda: testbed.schedule("crossbar:2", seed="x"),  # type: ignore[arg-type]
    lambda: testbed.network(5),  # type: ignore[arg-type]
    lambda: testbed.route("ring:4", 1.5, "s2"),  # type: ignore[arg-type]
    lambda: testbed.route("ring:4", "s0", "s2", None),  # type: ignore[arg-type]
    lambda: testbed.route("ring:4", "s0", "s2", layers="2"),  # type: ignore[arg-type]
    lambda: testbed.traffic("ring:4", 7),  # type: ignore[arg-type]
    lambda: testbed.traffic("ring:4", [(1.5, 2)]),  # type: ignore[list-item]
    lambda: testbed.block_size("20", 0.1),  # type: ignore[arg-type]
    lambda: testbed.block_size(20, None),  # type: ignore[arg-type]
    lambda: testbed.run({"plan": 1}),
    lambda: testbed.stream_plan("ring:4", "s0", "s2", rate="fast"),
    lambda: testbed.stream_plan("ring:4", "s0", "s2", rate_pps="fast"),
    lambda: testbed.stream_plan("ring:4", "s0", "s2", faults=[5]),
    lambda: testbed.bulk_plan("crossbar:2", message_bytes="1"),
    lambda: testbed.simulation_plan("mesh:3x3", "0.1"),  # type: ignore[arg-type]
    lambda: testbed.data_frame("ring:4"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_value_of_the_wrong_kind_is_a_usage_error_of_one_line(number: int) -> None:
    with pytest.raises(UsageError) as error:
        WRONG[number]()
    assert ("\n" not in str(error.value) and "give" in str(error.value)) or "there are" in str(
        error.value
    )
    assert isinstance(error.value, (TypeError, ValueError)) and error.value.exit_code == 2


@pytest.mark.parametrize(
    "call",
    [
        lambda: testbed.network("rnig:4"),
        lambda: testbed.route("ring:4", "s0", "s9"),
        lambda: testbed.route("ring:4", "s0", "s2", "capilary"),
        lambda: testbed.schedule("crossbar:2", "liqid"),
        lambda: testbed.schedule("crossbar:2", seed=-1),
        lambda: testbed.traffic("ring:4", "none"),
        lambda: testbed.traffic("ring:4", [("h0",)]),  # type: ignore[list-item]
        lambda: testbed.block_size(20, 0.1, labels="none"),  # type: ignore[arg-type]
        lambda: testbed.block_size(20, [(0, 70000)], labels="stratified"),
        lambda: testbed.block_size(20, 1.5),
        lambda: testbed.bulk_plan("crossbar:2", switching="both"),  # type: ignore[arg-type]
        lambda: testbed.run(testbed.bulk_plan("crossbar:2"), "cloud"),  # type: ignore[arg-type]
    ],
)
def test_value_out_of_range_is_an_error_of_ours(call: Callable[[], Any]) -> None:
    from fec import FecError

    with pytest.raises((InputError, TopologyError, FecError)):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: capillary_route("ring:4", "s0", "s2"),  # type: ignore[arg-type]
        lambda: single_path(None, "s0", "s2"),  # type: ignore[arg-type]
        lambda: capillary_route(load_network("ring:4"), 0, 1),  # type: ignore[arg-type]
        lambda: route_by_name(load_network("ring:4"), "s0", "s2", 5),  # type: ignore[arg-type]
        lambda: Traffic.from_transfers(5),  # type: ignore[arg-type]
        lambda: Traffic.from_transfers([5]),  # type: ignore[list-item]
        lambda: check_schedule([], []),  # type: ignore[arg-type]
        lambda: load_network(5),  # type: ignore[arg-type]
        lambda: fec.fec_block_size("20", 0.1, 1e-5),  # type: ignore[arg-type]
        lambda: fec.ror(0.5, tolerance=0.05, source_packets=20, decoding_error_rate=1e-5),  # type: ignore[arg-type]
        lambda: fec.ReedSolomonCode(source_packets="20"),  # type: ignore[arg-type]
    ],
)
def test_functions_below_refuse_values_of_the_wrong_kind_too(call: Callable[[], Any]) -> None:
    with pytest.raises((UsageError, TopologyError, fec.FecError)) as error:
        call()
    assert "\n" not in str(error.value)


def test_numbers_of_numpy_are_numbers() -> None:
    assert testbed.block_size(np.int64(20), np.float64(0.1)) == 32  # type: ignore[arg-type]
    assert testbed.block_size(20, [(np.int64(0), np.int64(200))], labels="stratified") == 21  # type: ignore[list-item]
    assert testbed.block_size(20, np.float32(0.5)) == testbed.block_size(20, 0.5)
    assert testbed.wavelength_plan("optical-cloud", seed=np.int64(2)).lightpaths
    assert ring(n=np.uint8(200)) == ring(n=200)  # type: ignore[arg-type]
    assert Link(source="a", target="b", capacity_bps=np.int64(5)).capacity_bps == 5  # type: ignore[arg-type]
    one: Any = np.int64(1)
    assert (
        testbed.route("ring:4", "s0", "s2", layers=one).loads
        == capillary_route(load_network("ring:4"), "s0", "s2", one).loads
    )


def test_small_numbers_of_numpy_are_kept_as_python_s() -> None:
    small = testbed.striping_plan("crossbar:4", np.int64(2), np.int64(2), file_bytes=np.uint8(250))  # type: ignore[arg-type]
    assert small.volumes == testbed.striping_plan("crossbar:4", 2, 2, file_bytes=250).volumes
    message = testbed.bulk_plan("crossbar:2", message_bytes=np.uint8(200)).message_bytes  # type: ignore[typeddict-item]
    assert (message, type(message)) == (200, int)
    assert fec.ReedSolomonCode(np.uint8(200)).source_packets == 200  # type: ignore[arg-type]


def test_names_that_other_programs_import_are_in_their_packages() -> None:
    from testbed import scheduling

    assert scheduling.liquid_schedule is liquid_schedule
    assert (scheduling.check_schedule, scheduling.Traffic) == (check_schedule, Traffic)


def test_every_name_is_there_and_another_is_an_attribute_error() -> None:
    for name in testbed.__all__:
        assert getattr(testbed, name) is not None and name in dir(testbed)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        testbed.nothing  # noqa: B018


def test_import_alone_imports_nothing_else() -> None:
    script = "import sys; before = set(sys.modules); import testbed; print(sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert "numpy" not in done.stdout and "testbed.api" not in done.stdout


def test_stratified_blocks_of_an_interval_are_no_longer_than_random_ones() -> None:
    assert (
        testbed.block_size(20, Fraction(1, 10), labels="stratified")
        < testbed.block_size(20, 0.1)
        == 32
    )


def test_script_of_twenty_lines_gives_the_commands_json(tmp_path: Path) -> None:
    script = ROOT / "examples" / "one_stream.py"
    assert len(script.read_text().splitlines()) <= 20
    ours = run([sys.executable, str(script)], capture_output=True, text=True, check=True, cwd=ROOT)
    words = [
        "stream",
        "swiss-t1",
        "--from",
        "s1",
        "--to",
        "s6",
        "--max-faults",
        "3",
        "--fabric",
        "simulator",
        "--json",
        "--results",
    ]
    theirs = in_process(*words, str(tmp_path))
    document = json.loads(theirs.stdout)
    del document["results"]  # where the command kept the run
    assert json.loads(ours.stdout) == document


@pytest.mark.parametrize(
    "plan",
    [
        lambda: testbed.bulk_plan("crossbar:3", message_bytes=10_000),
        lambda: testbed.download_plan("ring:4", "s0", "s2", file_bytes=200_000),
        lambda: testbed.striping_plan("crossbar:4", 2, 2, file_bytes=20_000),
        lambda: testbed.wavelength_plan("optical-cloud:graph=ring:4,wavelengths=2"),
    ],
)
def test_every_workload_runs_on_the_simulator_to_a_verdict(plan: Callable[[], Any]) -> None:
    outcome = testbed.run(plan(), "simulator")
    assert (
        outcome.fabric == "simulator" and outcome.verdict.checks and outcome.verdict.invalid is None
    )
    assert json.loads(json.dumps(outcome.document))["verdict"]["passed"] == outcome.passed


@pytest.mark.parametrize("rates", [{"load": 0.1}, {"loads": (0.1, 0.2)}])
def test_simulation_gives_the_commands_json(rates: dict[str, Any], tmp_path: Path) -> None:
    plan = testbed.simulation_plan("mesh:3x3", duration_s=0.001, repetitions=2, **rates)
    loads = ["--load", "0.1"] if "load" in rates else ["--loads", "0.1:0.2:0.1"]
    words = ["simulate", "mesh:3x3", *loads, "--duration", "0.001", "--repetitions", "2", "--json"]
    done = in_process(*words, "--results", str(tmp_path))
    document = json.loads(done.stdout)
    del document["results"]  # where the command kept the run
    assert json.loads(json.dumps(testbed.run(plan).document)) == document


def test_tables_have_a_row_an_item() -> None:
    pandas = pytest.importorskip("pandas")
    route = testbed.route("ring:4", "s0", "s2")
    frame = testbed.data_frame(route)
    assert isinstance(frame, pandas.DataFrame) and frame.load_float.tolist() == [0.5] * 4
    assert len(testbed.data_frame(testbed.network("ring:4"))) == 16
    assert testbed.data_frame(testbed.schedule("crossbar:2")).groupby("frame").size().tolist() == [
        2,
        2,
    ]


def test_plan_that_no_fabric_runs_is_refused() -> None:
    plan = testbed.metapath_plan("torus:3x3", "h0_0", "h1_1", faults="none")
    with pytest.raises(TestbedError, match="switches only"):
        testbed.run(plan, "simulator")
    assert replace(plan, seed=2).seed == 2


@pytest.mark.long
def test_campaign_in_this_process_has_the_rows_of_the_command(tmp_path: Path) -> None:
    keys = {
        "name": "mine",
        "networks": ["ring:4", "torus:3x3"],
        "methods": ["capillary", "single"],
        "tolerances": [0.6],
    }
    outcome = testbed.run(testbed.campaign_plan(**keys), "simulator")
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(keys))
    done = in_process("campaign", str(file), "--results", str(tmp_path), "--json")
    theirs = json.loads(done.stdout)
    assert outcome.workload == "campaign" and outcome.document["rows"] == len(outcome.rows) == 4
    assert {name: theirs[name] for name in outcome.document} == json.loads(
        json.dumps(outcome.document)
    )


def test_plan_of_moving_nodes_is_that_of_its_frames() -> None:
    walking = testbed.mobility_plan(
        "manet:nodes=20", "n0", "n5", count=2, frame_s=1.0, rate_pps=100
    )
    frames = ["manet:nodes=20,frame=0", "manet:nodes=20,frame=1"]
    assert testbed.mobility_plan(frames, "n0", "n5", frame_s=1.0, rate_pps=100) == walking
    with pytest.raises(InputError, match="does not move"):
        testbed.mobility_plan("swiss-t1", "s1", "s6")
    with pytest.raises(UsageError, match="there is no argument 'speed'"):
        testbed.mobility_plan(frames, "n0", "n5", speed=3)  # type: ignore[call-arg]
    outcome = testbed.run(walking, "simulator")
    assert outcome.workload == "stream" and len(walking.changes) == 1 and outcome.verdict.checks
