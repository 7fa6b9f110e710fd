"""What a run tells its live page: there and back as bytes, and what the page makes of it; metrics; nothing of a
socket."""

from __future__ import annotations

import socket
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import UsageError
from testbed.faults.fault import Fault
from testbed.live.adapters.feed import Feed, PointsPage
from testbed.live.events import InterimResults, RunEnded, RunView, Sample, decode, encode
from testbed.live.metrics import exposition
from testbed.live.run_views import idle_network_view, network_view, predicted_loss
from testbed.live.view import LiveState
from testbed.model.progress import CounterReading
from topologies import load_network
from topologies.text.json_types import JsonObject

AB, AC = ("s0", "s1", 0), ("s0", "s3", 0)
FAULT = Fault(link=AB, start_s=1.0, stop_s=2.0)


def _scene(**more: object) -> RunView:
    loads = {AB: Fraction(1, 2), AC: Fraction(1, 2)}
    values: JsonObject = {
        "source": "s0",
        "sink": "s2",
        "share": "stream",
        "source_packets": 20,
    } | more
    return replace(network_view("a ring", load_network("ring:4"), loads, [FAULT], 4.0), **values)


def _view(*samples: Sample) -> LiveState:
    view = LiveState()
    for event in (_scene(), *samples):
        view.apply(decode(encode(event)))
    return view


numbers = st.integers(min_value=0, max_value=1 << 50)
readings = st.builds(
    CounterReading,
    at_s=st.none() | st.floats(0, 1e6),
    link_bytes=st.dictionaries(
        st.tuples(st.text(max_size=4), st.text(max_size=4), st.integers(0, 3)), numbers, max_size=3
    ),
    down=st.none() | st.just((AB,)),
    faults=st.none() | st.just(()) | st.just(("s0->s1 down",)),
    sent=st.none() | numbers,
    received=st.none() | numbers,
    frame=st.none() | numbers,
    figures=st.dictionaries(st.text(max_size=5), st.floats(0, 1e9), max_size=2),
)


@given(readings, st.floats(0, 1e9), st.none() | st.floats(0, 1))
def test_a_sample_comes_back_as_it_went(
    reading: CounterReading, clock_s: float, done: float | None
) -> None:
    sample = Sample(clock_s=clock_s, reading=reading, done=done, doing="x")
    assert decode(encode(sample)) == sample


FOUND = InterimResults(outcomes=(("holds", "bytes"), ("fails", "ROR")), figures={"load": "<svg/>"})


def test_scenes_findings_and_ends_come_back_as_they_went() -> None:
    for event in (_scene(), FOUND, RunEnded(outcome="passed", page="/somewhere/page.html")):
        assert decode(encode(event)) == event


def test_study_shows_its_points_to_late_viewers() -> None:
    view = LiveState()
    view.apply(RunView(title="a study", network={}))
    (message,) = view.apply(FOUND)
    assert (
        message.name == "findings"
        and "does not hold" in message.data["html"]
        and "ROR" in message.data["html"]
    )
    view.apply(Sample(clock_s=1.0, done=0.5, doing="1 of 2 points"))
    told = {m.name: m.data for m in view.replay()}
    assert (
        told["findings"] == message.data
        and told["state"]["network"] is False
        and told["state"]["done"] == 0.5
    )
    assert "svg" not in told["scene"]["html"] and b"testbed_run_done_ratio 0.5" in exposition(view)


def test_live_verdicts_take_little_time_and_may_fail() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    calls = []

    def find() -> InterimResults:
        calls.append(1)
        if len(calls) == 1:
            raise KeyError("a point that is still to come")
        return FOUND

    page = PointsPage(Feed(ours), "a study", find)
    for done in range(6):
        page.show(done, 5)
    theirs.setblocking(False)
    told = [decode(theirs.recv(1 << 20)) for _ in range(8)]
    ours.close(), theirs.close()
    assert len(calls) == 2  # after the first point, and at the end
    assert [type(one) for one in told] == [RunView, *[Sample] * 6, InterimResults] and told[
        -1
    ] == FOUND


def test_a_network_that_is_up_is_drawn_with_all_its_links() -> None:
    network = load_network("ring:4")
    view = LiveState()
    view.apply(decode(encode(idle_network_view("ring", network))))
    view.apply(Sample(clock_s=1.0, reading=CounterReading(link_bytes={AB: 0})))
    view.apply(Sample(clock_s=2.0, reading=CounterReading(link_bytes={AB: 125_000})))
    assert view.loads()[AB] == pytest.approx(0.1) and len(view.loads()) == len(network.links)


@given(st.binary(max_size=40))
def test_other_bytes_are_no_event(message: bytes) -> None:
    with pytest.raises(UsageError, match="no event"):
        decode(message)


def test_loads_are_differences_of_counters_over_the_stream() -> None:
    view = _view(
        Sample(clock_s=10.0, reading=CounterReading(link_bytes={AB: 1000, AC: 5000})),
        Sample(clock_s=10.5, reading=CounterReading(link_bytes={AB: 4000, AC: 6000})),
    )
    assert view.loads() == {AB: 0.75, AC: 0.25}
    assert view.rates_bps[AB] == 8 * 3000 / 0.5


def test_a_lost_message_costs_nothing_but_its_moment() -> None:
    told = [
        Sample(
            clock_s=k, reading=CounterReading(at_s=k, sent=100 * k, received=90 * k, block_size=27)
        )
        for k in range(6)
    ]
    whole, holed = _view(*told), _view(*told[:2], *told[4:])
    assert whole.loss() == pytest.approx(0.1) and holed.loss() == pytest.approx(0.1, abs=0.01)
    assert whole.redundancy() == pytest.approx(27 / 20 - 1)


def test_packets_under_way_are_not_taken_for_lost() -> None:
    under_way = (5, 40, 3, 12, 0, 33, 4, 4)
    samples = [
        Sample(clock_s=k, reading=CounterReading(at_s=k, sent=1000 * k, received=1000 * k - late))
        for k, late in enumerate(under_way)
    ]
    timeline = _view(*samples).session().timeline
    assert timeline is not None
    assert max(loss for loss in timeline.loss if loss is not None) == 0


def test_slow_packets_are_not_lost_at_the_start_and_losses_are_counted() -> None:
    """100 ms on the way, a sample every 0.2 s that is up to 8 ms late; from 2 s to 3 s every fifth packet is lost."""
    samples = []
    for k in range(1, 25):
        at_s = 0.2 * k + 0.002 * (k % 5)
        due = max(0.0, at_s - 0.1)
        lost = 0.2 * 1000 * (min(max(due, 2.0), 3.0) - 2.0)
        reading = CounterReading(at_s=at_s, sent=int(1000 * at_s), received=int(1000 * due - lost))
        samples.append(Sample(clock_s=at_s, reading=reading))
    timeline = _view(*samples).session().timeline
    assert timeline is not None
    inside = [
        loss
        for t, loss in zip(timeline.t_s, timeline.loss, strict=True)
        if loss is not None and 2.2 <= t < 2.8
    ]
    outside = [
        loss
        for t, loss in zip(timeline.t_s, timeline.loss, strict=True)
        if loss is not None and not 1.8 < t < 3.2
    ]
    assert max(outside) == 0 and sum(inside) / len(inside) == pytest.approx(0.2, abs=0.03)


def test_a_cable_without_a_carrier_is_a_fault_that_nobody_has_to_tell() -> None:
    view = _view(Sample(clock_s=1.0, reading=CounterReading(down=(AB, ("s1", "s0", 0)))))
    assert view.faults() == ["s0->s1 has no carrier"]
    assert view.state().data["down"] == ["s0->s1", "s1->s0"]
    view.apply(Sample(clock_s=1.1, reading=CounterReading(faults=("s0->s1 down",))))
    assert view.faults() == ["s0->s1 down"]
    view.apply(Sample(clock_s=1.2, reading=CounterReading(down=(), faults=())))
    assert view.faults() == []


def test_a_new_scene_forgets_the_one_before() -> None:
    view = _view(
        Sample(
            clock_s=1.0,
            done=0.7,
            doing="x",
            reading=CounterReading(at_s=1.0, sent=5, received=5, faults=("y",)),
        )
    )
    view.apply(_scene())
    assert (view.done, view.faults(), view.curves().data["html"]) == (0.0, [], "")


def test_late_viewer_gets_scene_state_curves_and_end() -> None:
    view = _view(Sample(clock_s=1.0, reading=CounterReading(at_s=0.5, sent=5, received=5)))
    view.apply(RunEnded(outcome="passed"))
    assert [message.name for message in view.replay()] == ["scene", "state", "curves", "ended"]
    assert 'data-link="s0-&gt;s1"' in view.replay()[0].data["html"]


def test_bytes_of_stores_count_both_ways_since_the_beginning() -> None:
    view = LiveState()
    view.apply(_scene(stores=("s1",), share="capacity"))
    for octets in (1_000_000, 3_500_000):
        view.apply(
            Sample(
                clock_s=octets / 1e6,
                reading=CounterReading(link_bytes={AB: octets, ("s1", "s2", 0): 0, AC: 9 * octets}),
            )
        )
    assert view.stored() == [["s1", 2.5]]


def test_a_fault_takes_what_its_links_carry() -> None:
    loads = {AB: Fraction(1, 4)}
    assert predicted_loss(FAULT, loads) == 0.25
    assert predicted_loss(Fault(link=("s1", "s0", 0), direction="forward"), loads) == 0.0
    assert predicted_loss(Fault(link=AB, kind="loss", loss_fraction=0.5), loads) == 0.125


def test_metrics_are_in_prometheus_format() -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    view = _view(
        Sample(
            clock_s=1.0,
            done=0.5,
            doing="x",
            reading=CounterReading(
                at_s=1.0, link_bytes={AB: 10}, sent=9, received=8, faults=("z",)
            ),
        )
    )
    families = {f.name: f for f in parser.text_string_to_metric_families(exposition(view).decode())}
    (counted,) = families["testbed_link_sent_bytes"].samples
    assert counted.labels == {"source": "s0", "target": "s1", "key": "0"} and counted.value == 10
    values = {name: f.samples[0].value for name, f in families.items() if len(f.samples) == 1}
    assert values["testbed_run_done_ratio"] == 0.5 and values["testbed_faults_in_force"] == 1
    assert values["testbed_stream_sent_packets"] == 9 and "testbed_time_frame" not in values
