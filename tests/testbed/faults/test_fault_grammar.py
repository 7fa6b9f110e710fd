"""One grammar of faults: what each form of text and of file says, and that what says nothing is refused with its
words."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.faults.grammar import (
    parse_cable_faults,
    parse_fault,
    parse_fault_document,
    parse_fault_list,
    parse_link,
    parse_node_time,
    parse_poisson,
)
from topologies import load_network
from topologies.files.node_link import parse_document

T1, TORUS = load_network("swiss-t1"), load_network("torus:4x4")
moments = st.floats(0, 100).map(lambda x: round(x, 3))


@given(
    link=st.sampled_from([link.id for link in T1.links]),
    start_s=moments,
    length_s=st.floats(0.001, 100),
    kind=st.sampled_from(["down", "blackhole", "loss"]),
    loss_fraction=st.floats(0.01, 1),
    one_way=st.booleans(),
)
def test_text_and_file_say_the_same(
    link: tuple[str, str, int],
    start_s: float,
    length_s: float,
    kind: str,
    loss_fraction: float,
    one_way: bool,
) -> None:
    stop_s = round(start_s + length_s + 0.001, 3)
    name = f"{link[0]}->{link[1]}#{link[2]}"
    loss = loss_fraction if kind == "loss" else 1.0
    text = (
        f"{name}@{start_s:f}-{stop_s:f} {kind}"
        + (f" {loss!r}" if kind == "loss" else "")
        + " one-way" * one_way
    )
    direction = "forward" if one_way else "both"
    entry = {
        "link": name,
        "kind": kind,
        "start_s": start_s,
        "stop_s": stop_s,
        "direction": direction,
    }
    wanted = Fault(**{**entry, "link": link}, loss_fraction=loss)  # type: ignore[arg-type]
    assert parse_fault(text, T1) == wanted
    assert parse_fault_document([entry | {"loss_fraction": loss}], T1, "file") == (wanted,)


@pytest.mark.parametrize(
    ("text", "start_s", "stop_s"),
    [
        ("s1->s2", 0.0, math.inf),
        ("s1->s2@3", 3.0, math.inf),
        ("s1->s2@3-", 3.0, math.inf),
        ("s1->s2@-2.5", 0.0, 2.5),
        ("s1-s2@.5-1e1", 0.5, 10.0),
    ],
)
def test_times_left_out_are_the_beginning_and_for_ever(
    text: str, start_s: float, stop_s: float
) -> None:
    assert parse_fault(text, T1) == Fault(link=("s1", "s2", 0), start_s=start_s, stop_s=stop_s)


def _rounded(fault: Fault) -> tuple[Any, ...]:
    return (
        fault.link,
        fault.kind,
        round(fault.start_s, 4),
        round(fault.stop_s, 4) if not fault.permanent else math.inf,
    )


@given(
    st.lists(
        st.tuples(st.sampled_from(T1.links), moments, st.booleans(), st.booleans()),
        min_size=1,
        max_size=4,
    )
)
def test_fault_without_an_end_is_permanent(
    asked: list[tuple[Any, float, bool, bool]],
) -> None:
    texts, entries = [], []
    for link, start_s, for_good, lossy in asked:
        name, stop_s = f"{link.source}->{link.target}#{link.key}", None if for_good else start_s + 1
        texts.append(f"{name}@{start_s:f}-{'' if for_good else f'{stop_s:f}'}{' loss 0.5' * lossy}")
        manner = {"kind": "loss", "loss_fraction": 0.5} if lossy else {}
        entries.append({"link": name, "start_s": start_s, "stop_s": stop_s, **manner})
    found, of_file = (
        parse_fault_list(", ".join(texts), T1),
        parse_fault_document(entries, T1, "file"),
    )
    assert sorted(map(_rounded, found)) == sorted(map(_rounded, of_file))
    assert sum(f.permanent for f in found) == sum(for_good for _, _, for_good, _ in asked)


def test_a_list_wants_an_end_or_the_dash_that_says_never() -> None:
    with pytest.raises(
        InputError,
        match=r"missing end time; expected LINK@START-STOP.* or LINK@START- for a permanent fault",
    ):
        parse_fault_list("s1->s2@1-2, s2->s3@1", T1)
    with pytest.raises(InputError, match="stop_s None is not a finite number"):
        parse_fault_document(
            [{"flapping": "s1->s2", "start_s": 0, "stop_s": None, "period_s": 1, "down_s": 0.5}],
            T1,
            "f",
        )


def test_names_may_have_spaces_and_signs_of_the_grammar() -> None:
    ends = ("New York", "me@home")
    network = parse_document(
        {"nodes": [{"id": end} for end in ends], "links": [{"source": ends[0], "target": ends[1]}]}
    )
    assert parse_fault("New York->me@home@1-2", network).link == (*ends, 0)
    assert parse_link("me@home -> New York", network) == ("me@home", "New York", 0)
    assert parse_fault("a->b blackhole", _pair("a", "b")).kind == "blackhole"
    assert parse_fault("x@y->b blackhole", _pair("x@y", "b")).link == ("x@y", "b", 0)


def test_ambiguous_fault_is_rejected_after_the_longer_link() -> None:
    ends = ("b", "b@home")
    network = parse_document(
        {
            "nodes": [{"id": name} for name in ("a", *ends)],
            "links": [{"source": "a", "target": end} for end in ends],
        }
    )
    with pytest.raises(InputError, match=r"fault on a->b@home: start 2\.0 s and stop 1\.0 s"):
        parse_fault("a->b@home@2-1", network)
    with pytest.raises(InputError, match=r"fault on a->b@home: loss_fraction 2\.0"):
        parse_fault("a->b@home loss 2", network)


def _pair(a: str, b: str) -> Any:
    return parse_document({"nodes": [{"id": a}, {"id": b}], "links": [{"source": a, "target": b}]})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is no link of"),
        ("s1", "link 's1' is no link of 'swiss-t1'"),
        ("s1->s99@1-2", "'s1->s99' is no link"),
        ("s1->s2#7", "is no link"),
        ("s1->s2@soon", "'soon' is not START-STOP in seconds"),
        ("s1->s2@1..2", "'1..2' is not START-STOP in seconds"),
        ("s1->s2@.-2", "'.-2' is not START-STOP in seconds"),
        ("s1->s2@2-1", "start must be 0 or more and before stop"),
        ("s1->s2@nan", "start must be"),
        ("s1->s2@0-nan", "start must be"),
        ("s1->s2 fire", "down, blackhole or loss FRACTION"),
        ("s1->s2 loss", "loss FRACTION"),
        ("s1->s2 undone", "loss FRACTION"),
        ("s1->s2 down 0.5", "loss FRACTION"),
        ("s1->s2 loss much", "loss 'much' is no number"),
        ("s1->s2 loss 2", "outside"),
    ],
)
def test_text_that_is_no_fault_is_refused_with_its_words(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_fault(text, T1)


@pytest.mark.parametrize(
    ("with_units", "plain"),
    [
        ("s1->s2@200ms-3s", "s1->s2@0.2-3"),
        ("s1->s2@1min-", "s1->s2@60-"),
        ("s1->s2@1-2 loss 30%", "s1->s2@1-2 loss 0.3"),
        ("s1->s2@1-2 delay:10 ms,jitter=5ms", "s1->s2@1-2 delay:0.01,jitter=0.005"),
        ("s1->s2@1-2 ge:p=1%,r=30%", "s1->s2@1-2 ge:p=0.01,r=0.3"),
    ],
)
def test_fault_takes_units(with_units: str, plain: str) -> None:
    assert parse_fault(with_units, T1) == parse_fault(plain, T1)


def test_fault_file_takes_units() -> None:
    link = {"link": "s1->s2", "kind": "loss"}
    with_units = link | {"start_s": "200ms", "stop_s": "1 min", "loss_fraction": "30%"}
    plain = link | {"start_s": 0.2, "stop_s": 60, "loss_fraction": 0.3}
    assert parse_fault_document([with_units], T1, "file") == parse_fault_document(
        [plain], T1, "file"
    )
    with pytest.raises(InputError, match="start_s 'soon' is not a finite number"):
        parse_fault_document([plain | {"start_s": "soon"}], T1, "file")


def test_poisson_faults_take_units() -> None:
    assert parse_poisson("poisson:rate=0.01,lasts=200ms,kind=loss,loss=5%") == parse_poisson(
        "poisson:rate=0.01,lasts=0.2,kind=loss,loss=0.05"
    )


def test_faults_of_a_file_may_overlap_even_on_one_link() -> None:
    entries = [
        {"link": "s1->s2", "start_s": 1, "stop_s": 3},
        {"link": "s2->s1", "start_s": 2, "stop_s": 4, "kind": "loss", "loss_fraction": 0.5},
        {"node": "s1", "start_s": 2.5, "stop_s": 2.6},
        {"flapping": "s2->s3", "start_s": 1, "stop_s": 4, "period_s": 1, "down_s": 0.5},
    ]
    found = parse_fault_document({"faults": entries}, T1, "file")
    assert found[0] == Fault(link=("s1", "s2", 0), start_s=1, stop_s=3)
    assert Fault(link=("s2", "s1", 0), start_s=2, stop_s=4, kind="loss", loss_fraction=0.5) in found
    flaps = [(f.start_s, f.stop_s) for f in found if f.ends == ("s2", "s3")]
    assert flaps == [(1.0, 1.5), (2.0, 2.5), (3.0, 3.5)]
    of_node = {f.ends for f in found if f.start_s == 2.5}
    assert of_node == {
        (a, b) if a < b else (b, a) for a, b, _ in (link.id for link in T1.links) if "s1" in (a, b)
    }


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"node": ["s1"], "start_s": 0, "stop_s": 1}, "no such node"),
        (
            {"node": "s1", "start_s": 0, "stop_s": 1, "kind": "down"},
            "unknown key 'kind'; known are node",
        ),
        ({"flapping": "s1->s2", "start_s": 0, "stop_s": 1, "down_s": 0.1}, "period_s is missing"),
        (
            {"link": "s1->s2", "start_s": True, "stop_s": 1},
            "start_s True is not a finite number within 1e9",
        ),
        (
            {"link": "s1->s2", "start_s": 0, "stop_s": 2e9},
            "stop_s 2000000000.0 is not a finite number within 1e9",
        ),
        (
            {"link": "s1->s2", "start_s": float("nan"), "stop_s": 1},
            "start_s nan is not a finite number within 1e9",
        ),
        (
            {"link": "s1->s2", "start_s": "0", "stop_s": 1},
            "start_s '0' is not a finite number within 1e9",
        ),
        ({"link": 7, "start_s": 0, "stop_s": 1}, "link 7 is no link"),
        (
            {"link": "s1->s2", "start_s": 0, "stop_s": 1, "direction": "back"},
            "neither both nor forward",
        ),
    ],
)
def test_entry_of_a_file_that_is_no_fault_is_named(entry: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=f"^here.*1.*: .*{says}"):
        parse_fault_document([{"link": "s1->s2", "start_s": 0, "stop_s": 1}, entry], T1, "here")


def test_a_list_of_cables_and_patterns_is_of_whole_cables_by_start() -> None:
    found = parse_cable_faults(
        "s0_1-s0_0@0.2-0.3, s1_0->s1_1, L:2@0.1", TORUS, seed=2, duration_s=1.0
    )
    assert [f.start_s for f in found] == sorted(f.start_s for f in found) and len(found) == 2 + 4
    assert Fault(link=("s0_0", "s0_1", 0), start_s=0.2, stop_s=0.3) in found
    assert Fault(link=("s1_0", "s1_1", 0)) in found
    assert sum(f.start_s == 0.1 and f.permanent for f in found) == 4
    assert found == parse_cable_faults(
        "s0_1-s0_0@0.2-0.3, s1_0->s1_1, l:2@0.1", TORUS, seed=2, duration_s=1.0
    )
    assert not parse_cable_faults(None, TORUS, seed=1, duration_s=1.0) and not parse_cable_faults(
        "", TORUS, seed=1, duration_s=1.0
    )


def test_random_and_transient_cables_are_so_many_and_of_their_length() -> None:
    random = parse_cable_faults("random:5@0.1-0.4", TORUS, seed=2, duration_s=1.0)
    assert len({f.link for f in random}) == 5 and {(f.start_s, f.stop_s) for f in random} == {
        (0.1, 0.4)
    }
    again = parse_cable_faults("intermittent:3", TORUS, seed=2, duration_s=2.0)
    assert len(again) == 30 and len({fault.ends for fault in again}) == 3
    assert (
        sum(fault.stop_s - fault.start_s for fault in again) == pytest.approx(3 * 0.2)
        and again[-1].stop_s <= 2.0
    )
    transient = parse_cable_faults("transient:6", TORUS, seed=2, duration_s=2.0)
    assert len({f.link for f in transient}) == 6
    assert all(f.start_s < 2 and f.stop_s - f.start_s <= 0.2 for f in transient)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("s0_0", "give links as s0_0->s0_1"),
        ("random:x", "give random:N with a whole number N"),
        ("transient:2@1-2", "without times"),
        ("intermittent:2@1-2", "without times"),
        ("star:3", "give links as"),
        ("line:9", "do not fit"),
        ("random:99", "has 32 links"),
        ("s0_0-h0_0", "no such link between switches"),
        ("s0_0-s0_1@0.2-0.1", "before stop"),
        ("s0_0-s0_1@soon", "in seconds"),
    ],
)
def test_a_list_that_names_no_cables_is_refused(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_cable_faults(text, TORUS, seed=1, duration_s=1.0)


def test_poisson_takes_every_setting_and_names_a_wrong_one() -> None:
    found = parse_poisson(
        "poisson:rate=0.5,lasts=2,start=1,lengths=exponential,kind=loss,loss=0.25"
    )
    assert (found.rate_per_s, found.lasts_s, found.start_s) == (0.5, 2.0, 1.0)
    assert (found.lengths, found.kind, found.loss_fraction) == ("exponential", "loss", 0.25)
    for text, says in (
        ("poisson:", "none of rate="),
        ("poisson:rate=1", "lasts= is missing"),
        ("poisson:rate=x,lasts=1", "'x' is no number"),
        ("poisson:rate=1,lasts=1,kind=fire", "kind 'fire'"),
        ("poisson:rate=1,lasts=1,loss=3", "loss_fraction 3.0"),
    ):
        with pytest.raises(InputError, match=says):
            parse_poisson(text)


def test_a_moment_is_a_node_and_seconds() -> None:
    assert (
        parse_node_time("r5@2.5", "--kill", T1)
        == parse_node_time("r5@2500ms", "--kill", T1)
        == ("r5", 2.5)
    )
    for text in ("r5", "@1", "r5@x", "r5@-1", "r5@nan", "r5@inf"):
        with pytest.raises(InputError, match=r"--kill .*give NODE@TIME"):
            parse_node_time(text, "--kill", T1)
    assert parse_node_time('"r5"@1', "--kill", T1) == ("r5", 1.0), "names may stand in quotes"
    assert parse_node_time(" sink @1", "--kill", T1) == ("sink", 1.0), (
        "what is no node is for the plan to say"
    )


def test_ambiguous_cable_is_shown_in_both_readings_with_times() -> None:
    names, joined = ("a", "a-b", "b-c", "c"), (("a", "b-c"), ("a-b", "c"))
    network = parse_document(
        {
            "nodes": [{"id": name} for name in names],
            "links": [{"source": a, "target": b} for a, b in joined],
        }
    )
    for times in ("", "@1-2"):
        with pytest.raises(InputError) as refused:
            parse_cable_faults(f"a-b-c{times}", network, seed=1, duration_s=9.0)
        written = str(refused.value).partition("write ")[2].split(" or ")
        assert written == [f'"a"-"b-c"{times}', f'"a-b"-"c"{times}']
        ((first,), (second,)) = (
            parse_cable_faults(one, network, seed=1, duration_s=9.0) for one in written
        )
        assert {first.ends, second.ends} == set(joined) and first.start_s == second.start_s == (
            1.0 if times else 0.0
        )


def test_a_file_of_faults_reads_traces_beside_itself(tmp_path: Path) -> None:
    (tmp_path / "slow.trace").write_text("1\n3\n9\n")
    entry = {"link": "s1->s2", "start_s": 0, "stop_s": 1, "impairments": "trace:slow.trace"}
    (fault,) = parse_fault_document([entry], T1, "file", tmp_path)
    assert (
        "1" in fault.impairments
        and "slow.trace" not in fault.impairments.replace("\n", " ").split()
    )
    with pytest.raises(InputError, match=r"slow\.trace"):
        parse_fault_document([entry], T1, "file")
