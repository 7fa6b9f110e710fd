"""Streams at once: what does not fit together is refused before anything is done; on the simulator each has its
verdict."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.errors import InputError
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.verdict import judge
from testbed.stream.options import EachLink, StreamOptions
from testbed.stream.plan import StreamParameters
from testbed.stream.planning import build_together, check_concurrent
from testbed.stream.simulated import SimulatedStreamFabric
from tests.helpers.stream_plans import planned
from topologies import load_network


def request(source: str, sink: str, **more: object) -> StreamOptions:
    values: dict[str, object] = {"faults": EachLink(most=3, precision=0.03)}
    return StreamOptions("swiss-t1", source, sink, **(values | more))  # type: ignore[arg-type]


def test_end_point_of_two_streams_is_refused() -> None:
    with pytest.raises(InputError, match="'s6' is an end point of two streams"):
        build_together([request("s1", "s6"), request("s6", "s2")])


def test_streams_that_fill_a_link_together_are_refused() -> None:
    fast = StreamParameters(rate_pps=3000, symbol_bytes=256)
    plans = build_together([request("s1", "s6", rate_pps=800, faults=())])
    one, other = plans[0], replace(plans[0], forward=plans[0].forward)
    network = load_network("ring:6")
    pair = [
        planned(network, a, b, stream=replace(fast, rate_pps=4500))
        for a, b in (("s0", "s3"), ("s1", "s4"))
    ]
    with pytest.raises(InputError, match=r"streams at once: they put .* Mbit/s"):
        check_concurrent(pair)
    with pytest.raises(InputError, match="end point of two"):
        check_concurrent([one, other])


def test_each_stream_is_judged_by_what_the_common_faults_cost_it() -> None:
    """A cable that a stream uses the other way round is read the way it uses it."""
    plans = build_together([request("s1", "s6"), request("s2", "s5")])
    runs = SimulatedStreamFabric().run_concurrently(plans)
    analyses = [Analysis(plan, run) for plan, run in zip(plans, runs, strict=True)]
    assert plans[0].faults == plans[1].faults and plans[0].seed != plans[1].seed
    used = [
        plans[1].forward.load(plans[1].network.link_index[fault.link]) for fault in plans[1].faults
    ]
    assert any(
        not load and result.predicted_loss
        for load, result in zip(used, analyses[1].faults, strict=True)
    )
    for analysis in analyses:
        verdict = judge(analysis)
        assert verdict.passed, [c for c in verdict.checks if not c.passed]


def test_second_stream_is_in_the_document(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = [
        "stream",
        "swiss-t1",
        "--from",
        "s1",
        "--to",
        "s6",
        "--flow",
        "s2:s5",
        "--max-faults",
        "1",
        "--hold-time",
        "0.3",
    ]
    assert main([*words, "--fabric", "simulator", "--json", "--results", str(tmp_path)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["also"][0]["source"], document["also"][0]["sink"]) == ("s2", "s5")
    assert document["also"][0]["verdict"]["passed"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--flow", "s2"], "write A:B"),
        (["--background-rate", "1Mbps"], "needs the emulated fabric"),
        (["--queueing", "priority"], "--queueing needs the emulated fabric"),
        (["--background-rate", "0"], "more than 0 and at most"),
        (["--faults", "poisson:rate=1"], "lasts= is missing"),
        (["--faults", "poisson:rat=1,lasts=1"], "is none of rate="),
        (["--faults", "poisson:rate=x,lasts=1"], "is no number"),
        (["--faults", "poisson:rate=1,lasts=1,kind=odd"], "kind 'odd'"),
    ],
)
def test_options_that_cannot_be_used_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], says: str
) -> None:
    code = main(
        ["stream", "swiss-t1", "--from", "s1", "--to", "s6", "--fabric", "simulator", *words]
    )
    assert code in (2, 3)
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["torus:4x4"], "does not move"),
        (["manet:nodes=20,frame=3"], "leave frame= out"),
        (["manet:nodes=20", "--frames", "0"], "1 to 10000"),
        (["manet:nodes=20", "--faults", "each-link"], "give none or poisson"),
        (["manet:nodes=20", "--frame-duration", "0"], "give seconds, 0.1 to 3600"),
    ],
)
def test_movement_that_cannot_be_played_is_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert main(["mobility", *words, "--from", "n0", "--to", "n19", "--fabric", "simulator"]) == 2
    assert says in capsys.readouterr().err
