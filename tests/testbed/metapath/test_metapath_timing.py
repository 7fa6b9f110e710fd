"""A plain stream is planned so that FT-DRB can answer its failures at that rate, and one that it cannot answer is
refused."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.metapath.analysis import MetapathFacts
from testbed.metapath.judgement import ft_drb_checks, judge_metapaths
from testbed.metapath.options import MetapathOptions
from testbed.metapath.plan import MetapathPlan, ReceivedDatagrams
from testbed.metapath.planning import default_duration_s
from tests.testbed.metapath.test_metapath_verdict import _plan, _run


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rate_pps": 50.0, "duration_s": 3.0}, "one packet in 100 probes"),
        ({"rate_pps": 1000.0, "duration_s": 2.1}, "ends 0.1 s before the next one or the end"),
        (
            {"rate_pps": 5.0, "kind": "blackhole", "duration_s": 30.0},
            "the source finds it after 1.07 s",
        ),
        (
            {"rate_pps": 4.0, "options": MetapathOptions(notify="header"), "duration_s": 40.0},
            "5 notifications",
        ),
    ],
)
def test_a_failure_that_the_source_cannot_answer_in_time_is_refused(
    changes: dict[str, Any], words: str
) -> None:
    more = {"duration_s": 3.0} | changes
    kind = more.pop("kind", "down")
    with pytest.raises(InputError, match=re.escape(words)):
        replace(_plan(kind=kind), **more)
    elsewhere = Fault(link=("s3_3", "s3_2", 0), kind=kind, start_s=1.0, stop_s=2.0)
    assert replace(_plan(), faults=(elsewhere,), **more).faults == (elsewhere,)


@pytest.mark.parametrize("rate_pps", [20.0, 100.0, 1000.0])
def test_the_default_length_leaves_the_source_time_to_return(rate_pps: float) -> None:
    faults = _plan().faults
    plan = replace(
        _plan(),
        rate_pps=rate_pps,
        duration_s=default_duration_s(faults, rate_pps, MetapathOptions()),
        faults=faults,
    )
    assert plan.duration_s - faults[-1].stop_s > plan.return_s


def test_one_packet_lost_at_a_cut_is_borne_at_a_low_rate_and_two_are_not() -> None:
    run = _run(_plan())
    outcome = MetapathFacts(_plan(), run).faults[0]
    slow = replace(_plan(), rate_pps=10.0, duration_s=20.0)
    one, two = (replace(outcome, lost=lost, lost_s=lost / 10) for lost in (1, 2))
    assert [ft_drb_checks(slow, each, run.faults[0])[0].passed for each in (one, two)] == [
        True,
        False,
    ]


def _silent(plan: MetapathPlan, **health: Any) -> Any:
    run = _run(plan)
    nothing = np.zeros(0, dtype=np.int64)
    received = ReceivedDatagrams(time_s=np.zeros(0), number=nothing, dead_link=nothing)
    silent = replace(run, received=received, health=replace(run.health, **health))
    return judge_metapaths(plan, silent).verdict


def test_plain_stream_without_arrivals_fails_if_the_machine_kept_up() -> None:
    verdict = _silent(_plan("single"))
    assert verdict.invalid is None and verdict.outcome == "fails"
    assert _silent(_plan("single"), sender_lag_s=1.0).invalid is not None
