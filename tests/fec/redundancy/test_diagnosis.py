"""From the fates of labels to what failed: single failures, two at once, nodes, one-way, blackholes, and losses that
nothing explains."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fec.errors import FecError
from fec.redundancy.adaptation import AdaptationParameters, BlockSizeController
from fec.redundancy.block_size import stratified_block_size
from fec.redundancy.block_size_control import PacketReport
from fec.redundancy.candidates import CandidateTable, FailureCandidate
from fec.redundancy.diagnosis import Diagnoser
from fec.redundancy.diagnosis_control import DiagnosingControl
from fec.redundancy.labels import LABELS, StratifiedLabels
from tests.helpers.drawn import drawn

ORDER = StratifiedLabels()
CABLES = {
    "a-b": ((0, 16384),),
    "a-c": ((16384, 32768),),
    "b-d": ((0, 8192),),
    "b-e": ((8192, 16384),),
    "c-e": ((16384, 28000),),
    "c-f": ((28000, 32768),),
    "e-g": ((8192, 28000),),
    "h-i": ((40000, 40400), (60000, 60400)),
    "i-j": ((40000, 40400), (60000, 60400)),
}


def suspects() -> list[FailureCandidate]:
    found = [FailureCandidate(name=name, intervals=intervals) for name, intervals in CABLES.items()]
    return [
        *found,
        FailureCandidate(name="node c", intervals=((16384, 32768),), cables=3),
        FailureCandidate(name="node k", intervals=((32768, 50000),), cables=2),
    ]


def stream(diagnoser: Diagnoser, first: int, count: int, lost: Callable[[int], bool]) -> None:
    for index in range(first, first + count):
        label = ORDER.label(index)
        diagnoser.add(PacketReport(label, lost(label), index / 1000))


def on(*names: str) -> Callable[[int], bool]:
    """Whether a label crosses one of these cables."""
    intervals = [interval for name in names for interval in CABLES[name]]
    return lambda label: any(start <= label < stop for start, stop in intervals)


@pytest.fixture
def diagnoser() -> Diagnoser:
    return Diagnoser(CandidateTable(suspects()), unexplained_window_s=2.0)


def dead_labels(diagnoser: Diagnoser) -> int:
    return diagnoser.table.labels_in(diagnoser.possible_losses[0])


@pytest.mark.parametrize("name", [name for name in CABLES if name != "i-j"])
def test_one_failed_cable_is_named_and_cleared_again(diagnoser: Diagnoser, name: str) -> None:
    stream(diagnoser, 0, 500, lambda label: False)
    assert diagnoser.certain and diagnoser.names() == () and diagnoser.possible_losses == (0,)
    stream(diagnoser, 500, 400, on(name))
    assert diagnoser.certain and not diagnoser.unexplained
    assert name in diagnoser.names()
    assert dead_labels(diagnoser) == sum(stop - start for start, stop in CABLES[name])
    stream(diagnoser, 900, 100, lambda label: False)
    assert diagnoser.certain and diagnoser.names() == () and not diagnoser.unexplained


def test_cables_in_series_are_suspected_together(
    diagnoser: Diagnoser,
) -> None:
    stream(diagnoser, 0, 500, on("h-i"))
    assert diagnoser.certain and diagnoser.names() == ("h-i", "i-j")


def test_diagnosis_names_both_sets_and_answers_the_wider(
    diagnoser: Diagnoser,
) -> None:
    for label in (100, 200):  # on a-b and on b-d alike
        diagnoser.add(PacketReport(label, True, 0.0))
    assert not diagnoser.certain and diagnoser.names() == ("a-b", "b-d")
    assert [diagnoser.table.labels_in(mask) for mask in diagnoser.possible_losses] == [16384, 8192]
    diagnoser.add(PacketReport(9000, False, 0.1))
    assert diagnoser.certain and diagnoser.names() == ("b-d",)


def test_a_second_failure_is_added_and_each_ends_by_itself(diagnoser: Diagnoser) -> None:
    stream(diagnoser, 0, 300, on("b-d"))
    stream(diagnoser, 300, 400, on("b-d", "c-f"))
    assert diagnoser.certain and diagnoser.names() == ("b-d", "c-f")
    stream(diagnoser, 700, 200, on("c-f"))
    assert diagnoser.certain and diagnoser.names() == ("c-f",)
    stream(diagnoser, 900, 200, lambda label: False)
    assert diagnoser.certain and diagnoser.names() == ()


def test_fewest_causes_explain_double_failures_and_failed_nodes(
    diagnoser: Diagnoser,
) -> None:
    stream(diagnoser, 0, 400, on("b-d", "c-f"))
    assert dead_labels(diagnoser) == 8192 + 4768 and set(diagnoser.names()) >= {"b-d", "c-f"}
    other = Diagnoser(CandidateTable(suspects()), unexplained_window_s=2.0)
    stream(other, 0, 400, lambda label: 32768 <= label < 50000)
    assert other.certain and other.names() == ("node k",)


def test_failure_without_further_reports_makes_the_next_uncertain(
    diagnoser: Diagnoser,
) -> None:
    for label in (40_100, 60_100, 40_200):
        diagnoser.add(PacketReport(label, True, 0.0))
    assert diagnoser.certain and diagnoser.names() == ("h-i", "i-j")
    for k in range(
        30
    ):  # it may have been repaired: none of its few labels is sent for a while, and another cable breaks
        diagnoser.add(PacketReport(100 + 270 * k, True, 1.0))
        diagnoser.add(PacketReport(30_000, False, 1.0))
        diagnoser.add(PacketReport(9_000, False, 1.0))
    assert diagnoser.names() == ("h-i", "i-j", "b-d") and not diagnoser.certain
    seen_again = copy.deepcopy(diagnoser)
    seen_again.add(PacketReport(60_200, True, 1.1))
    assert seen_again.certain and seen_again.names() == ("h-i", "i-j", "b-d")
    diagnoser.add(PacketReport(60_200, False, 1.1))
    assert diagnoser.certain and diagnoser.names() == ("b-d",)


def test_one_cable_is_not_believed_while_two_smaller_ones_explain_as_much() -> None:
    trunk, left, right = (
        FailureCandidate(name=name, intervals=(interval,))
        for name, interval in (("trunk", (0, 3000)), ("left", (0, 1000)), ("right", (2000, 3000)))
    )
    both = Diagnoser(
        CandidateTable(
            [trunk, left, right, FailureCandidate(name="rest", intervals=((3000, LABELS),))]
        ),
        unexplained_window_s=1.0,
    )
    for label in (500, 2500, 600, 2600):
        both.add(PacketReport(label, True, 0.0))
    assert both.names() == ("trunk",) and not both.certain
    whole = copy.deepcopy(both)
    whole.add(PacketReport(1500, True, 0.0))
    assert whole.certain and whole.names() == ("trunk",)
    both.add(PacketReport(1500, False, 0.0))
    assert both.certain and both.names() == ("left", "right")


def test_diagnosis_ignores_packets_close_to_break_and_repair() -> None:
    slow = Diagnoser(CandidateTable(suspects()), unexplained_window_s=1.0, transit_s=0.05)
    slow.add(PacketReport(100, True, 0.00))
    slow.add(PacketReport(300, False, 0.01))  # was past the cable already when it broke
    for k in range(30):
        slow.add(PacketReport(100 + 270 * k, True, 0.06))
        slow.add(PacketReport(9_000, False, 0.06))
    assert slow.certain and slow.names() == ("b-d",)
    slow.add(PacketReport(200, False, 0.10))
    for k in range(5):
        slow.add(
            PacketReport(400 + k, True, 0.11)
        )  # a longer way to the cable, which was not mended yet
    assert slow.certain and slow.names() == () and not slow.unexplained


@drawn(60)
@given(
    pair=st.sets(st.sampled_from(sorted(set(CABLES) - {"i-j"})), min_size=1, max_size=2),
    first=st.integers(0, LABELS - 1),
    gap=st.integers(0, 200),
)
@example(pair={"c-f", "e-g"}, first=20286, gap=24)
def test_the_dead_labels_are_right_whenever_it_is_certain(
    pair: set[str], first: int, gap: int
) -> None:
    diagnoser = Diagnoser(CandidateTable(suspects()), unexplained_window_s=2.0)
    names = sorted(pair)
    stream(diagnoser, first, 100, lambda label: False)
    stream(diagnoser, first + 100, gap, on(names[0]))
    stream(diagnoser, first + 100 + gap, 1500, on(*names))
    dead = np.zeros(LABELS, dtype=bool)
    for start, stop in (interval for name in names for interval in CABLES[name]):
        dead[start:stop] = True
    # two cables may be explained by others that kill the same labels: then it may stay undecided, and says so
    assert diagnoser.certain or len(names) == 2
    assert dead_labels(diagnoser) == dead.sum() or not diagnoser.certain


@pytest.mark.parametrize("loss", [0.02, 0.1, 0.3])
def test_independent_losses_baffle_it(diagnoser: Diagnoser, loss: float) -> None:
    chance = random.Random(3)
    stream(diagnoser, 0, 3000, lambda label: chance.random() < loss)
    assert diagnoser.unexplained


def test_a_link_that_loses_half_baffles_it_and_is_forgotten_a_while_after(
    diagnoser: Diagnoser,
) -> None:
    chance = random.Random(5)
    stream(diagnoser, 0, 1000, lambda label: on("a-c")(label) and chance.random() < 0.5)
    assert diagnoser.unexplained
    stream(diagnoser, 1000, 3000, lambda label: False)
    assert not diagnoser.unexplained and diagnoser.certain


def test_labels_that_no_suspect_carries_are_not_explained(diagnoser: Diagnoser) -> None:
    for k in range(4):
        diagnoser.add(PacketReport(50_500, True, 0.1 * k))
    assert diagnoser.unexplained and diagnoser.names() == ()


def control() -> DiagnosingControl:
    def size_of(lost: tuple[tuple[int, int], ...]) -> int | None:
        return stratified_block_size(lost, 20) if sum(b - a for a, b in lost) < LABELS else None

    estimator = BlockSizeController(
        AdaptationParameters(base=22, largest=60), lambda loss: round(20 / (1 - loss)) + 3
    )
    return DiagnosingControl(
        Diagnoser(CandidateTable(suspects()), unexplained_window_s=2.0), size_of, estimator
    )


def fates(first: int, count: int, lost: Callable[[int], bool]) -> list[PacketReport]:
    return [
        PacketReport(label, lost(label), k / 1000)
        for k, label in enumerate(map(ORDER.label, range(first, first + count)), first)
    ]


def test_block_size_is_exact_at_once_up_and_down() -> None:
    deciding = control()
    deciding.on_packet_reports(fates(0, 100, lambda label: False), 0.1)
    assert deciding.block_size_at(0.1) == 22
    deciding.on_packet_reports(fates(100, 40, on("e-g")), 0.14)
    assert deciding.block_size_at(0.14) == stratified_block_size(CABLES["e-g"], 20)
    deciding.on_packet_reports(fates(140, 20, lambda label: False), 0.16)
    assert deciding.block_size_at(0.16) == 22
    assert [(event.names, event.certain) for event in deciding.events][-2:] == [
        (("e-g",), True),
        ((), True),
    ]


def test_the_estimator_speaks_where_labels_explain_nothing_and_says_so() -> None:
    deciding, chance = control(), random.Random(1)
    for k in range(20):
        deciding.on_packet_reports(
            fates(100 * k, 100, lambda label: chance.random() < 0.2), 0.1 * (k + 1)
        )
    assert deciding.events[-1].speaker == "estimate" and deciding.events[-1].names == ()
    assert deciding.loss == pytest.approx(0.2, abs=0.05)
    assert 26 <= deciding.block_size_at(2.0) <= 32


def test_n_stays_if_everything_is_lost() -> None:
    table = CandidateTable([FailureCandidate(name="only", intervals=((0, LABELS),))])
    estimator = BlockSizeController(AdaptationParameters(base=22), lambda loss: 40)
    deciding = DiagnosingControl(
        Diagnoser(table, unexplained_window_s=2.0), lambda lost: None, estimator
    )
    deciding.on_packet_reports(fates(0, 50, lambda label: True), 0.1)
    assert deciding.block_size_at(0.1) == 22 and deciding.events[-1].names == ("only",)


def test_tables_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(FecError, match="no suspects"):
        CandidateTable([])
    with pytest.raises(FecError, match="reach from"):
        CandidateTable([FailureCandidate(name="x", intervals=((0, LABELS + 1),))])


def test_stall_is_no_certain_failure_of_a_node() -> None:
    suspects_of_a_node = [
        FailureCandidate(name="left", intervals=((0, 1000),)),
        FailureCandidate(name="right", intervals=((1000, 2000),)),
        FailureCandidate(name="node", intervals=((0, 2000),), cables=2),
        FailureCandidate(name="rest", intervals=((2000, LABELS),)),
    ]
    hasty, patient = (
        Diagnoser(
            CandidateTable(suspects_of_a_node), unexplained_window_s=1.0, min_loss_spread_s=settle_s
        )
        for settle_s in (0.0, 0.03)
    )
    for one in (hasty, patient):
        for k in range(4):  # "left" breaks, and packets of "right" are late for 12 ms
            one.add(PacketReport(100 + k, True, 0.003 * k))
            one.add(PacketReport(1100 + k, True, 0.003 * k))
    assert hasty.certain and hasty.names() == ("node",)
    assert not patient.certain and patient.names() == ("node",)
    patient.add(PacketReport(1100, False, 0.02))
    for k in range(12):
        patient.add(PacketReport(100 + k, True, 0.021 + 0.003 * k))
        patient.add(PacketReport(1200 + k, False, 0.021 + 0.003 * k))
    assert patient.certain and patient.names() == ("left",)


def test_diagnosis_considers_two_failures_from_the_beginning() -> None:
    """Cable a explains what two others lose together, until a label is lost that it does not carry."""
    spans = {
        "a": ((0, 200),),
        "b": ((0, 100), (300, 320)),
        "c": ((100, 220),),
        "d": ((300, 340),),
        "rest": ((400, LABELS),),
    }
    table = CandidateTable(
        [FailureCandidate(name=name, intervals=one) for name, one in spans.items()]
    )
    diagnoser = Diagnoser(table, unexplained_window_s=1.0)
    for k in range(12):
        diagnoser.add(PacketReport((10, 150)[k % 2], True, 0.01 * k))
    assert not diagnoser.certain  # a, or b and c
    diagnoser.add(PacketReport(310, True, 0.2))
    diagnoser.add(PacketReport(315, True, 0.21))
    diagnoser.add(PacketReport(330, False, 0.22))  # not d: it is b, on top of a or with c
    assert not diagnoser.certain and {"a", "b", "c"} <= set(diagnoser.names())
    widest = {table.labels_in(mask) for mask in diagnoser.possible_losses}
    assert (
        table.labels_in(table.masks[0] | table.masks[1]) in widest
        and table.labels_in(table.masks[1] | table.masks[2]) in widest
    )
    diagnoser.add(PacketReport(210, True, 0.23))  # only c carries it
    assert diagnoser.certain and diagnoser.possible_losses == (table.masks[1] | table.masks[2],)


@pytest.mark.parametrize("passing", [True, False])
def test_node_is_not_believed_while_a_cable_and_a_stall_explain_as_much(
    passing: bool,
) -> None:
    """A cable is down for long enough to be certain of; of the other one packets were lost for a moment only, as
    yet."""
    table = CandidateTable(
        [
            FailureCandidate(name="left", intervals=((0, 1000),)),
            FailureCandidate(name="right", intervals=((1000, 2000),)),
            FailureCandidate(name="node", intervals=((0, 2000),), cables=2),
            FailureCandidate(name="rest", intervals=((2000, LABELS),)),
        ]
    )
    diagnoser = Diagnoser(table, unexplained_window_s=1.0, min_loss_spread_s=0.03)
    for k in range(20):
        diagnoser.add(PacketReport(100 + k, True, 0.003 * k))
        if k < 4:
            diagnoser.add(PacketReport(1100 + k, True, 0.003 * k))
    assert diagnoser.names() == ("node",) and not diagnoser.certain
    assert table.labels_in(diagnoser.possible_losses[0]) == 2000, (
        "what may be lost is answered all the same"
    )
    diagnoser.add(PacketReport(1150, not passing, 0.06))
    for k in range(12):
        diagnoser.add(PacketReport(100 + k, True, 0.061 + 0.003 * k))
    assert diagnoser.certain and diagnoser.names() == (("left",) if passing else ("node",))


def test_a_loss_before_the_clocks_zero_is_evidence_like_any_other(diagnoser: Diagnoser) -> None:
    for label, lost in ((100, True), (200, True), (9000, False)):
        diagnoser.add(PacketReport(label, lost, -1.0))
    assert diagnoser.certain and diagnoser.names() == ("b-d",)


@pytest.mark.parametrize("ways", [(10, 10, 10), (10, 10, 11)])
def test_diagnosis_tries_a_thousand_explanations_at_most(
    ways: tuple[int, ...],
) -> None:
    """Failures that began one upon another, each of labels that several cables share, which carry more of their own."""
    shared = [10_000 * k for k in range(len(ways))]
    cables = [
        FailureCandidate(
            name=f"{first}-{j}",
            intervals=((first, first + 100), (first + 500 * j + 200, first + 510 * j + 210)),
        )
        for first, count in zip(shared, ways, strict=True)
        for j in range(count)
    ]
    table = CandidateTable([*cables, FailureCandidate(name="last", intervals=((60_000, 60_100),))])
    diagnoser = Diagnoser(table, unexplained_window_s=1.0)
    for first in shared:
        for _ in range(5):
            diagnoser.add(PacketReport(first, True, 0.0))
    diagnoser.add(PacketReport(60_000, True, 0.0))
    each = [[mask for mask in table.masks if mask & table.bit_of(first)] for first in shared]
    unions = {a | b | c for a, b, c in itertools.product(*each)}
    widest = max(unions, key=table.labels_in)
    if len(unions) > 1000:
        unions = {widest, *itertools.chain(*each)}
    assert diagnoser.possible_losses[0] == widest and set(diagnoser.possible_losses) <= unions
    assert [table.labels_in(mask) for mask in diagnoser.possible_losses] == sorted(
        map(table.labels_in, unions), reverse=True
    )[:4]
    assert not diagnoser.certain and len(diagnoser.names()) == sum(ways)
