"""The source of FT-DRB on switches: when it marks, diverts, probes and returns; its equations against the
simulator's."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.interconnect.engine_inputs import build_settings
from testbed.interconnect.ft_drb.source_state import FtDrb, build_state
from testbed.interconnect.ft_drb.source_steps import sample_path, size_metapath
from testbed.interconnect.options import FtDrbOptions
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.static_paths import build_paths
from testbed.metapath.labelled_paths import cable_number, labelled_paths
from testbed.metapath.options import MetapathOptions
from testbed.metapath.source import (
    MetapathSource,
    PacketAck,
    metapath_bandwidth,
    metapath_step,
)
from testbed.metapath.wire import Acknowledger, decode_packet, decode_report, encode_packet
from topologies import load_network

NETWORK = load_network("torus:4x4")
KNOWN = labelled_paths(NETWORK, "s0_0", "s2_1")
DEAD = NETWORK.link_index["s1_0", "s2_0", 0]
CABLE = cable_number(NETWORK, ("s1_0", "s2_0", 0))


class Sink:
    """Sends packets one a millisecond and answers them at once, as links, escapes and silence have it."""

    def __init__(self, **options: object) -> None:
        self.source = MetapathSource(KNOWN, MetapathOptions(**options), random.Random(7).random)  # type: ignore[arg-type]
        self.now_s, self.number = 0.0, 0
        self.escaping: set[int] = set()
        self.silent: set[int] = set()
        self.latency_s = 0.001
        self.used: list[int] = []
        self.lost = 0

    def send(self, packets: int) -> None:
        for _ in range(packets):
            answered, alive = [], False
            for path in self.source.choose():
                self.used.append(path)
                self.source.sent(self.number, path, self.now_s)
                if not KNOWN.cables[path] & self.silent:
                    dead = DEAD if KNOWN.cables[path] & self.escaping else None
                    answered.append(
                        PacketAck(number=self.number, latency_s=self.latency_s, dead_link=dead)
                    )
                    alive = True
                self.number += 1
            self.lost += not alive
            self.now_s += 0.001
            self.source.on_report(self.now_s, answered, self.now_s)


def test_without_failures_every_packet_takes_the_minimal_path() -> None:
    sink = Sink()
    sink.send(500)
    assert set(sink.used) == {0}
    assert sink.source.zero_load_s == pytest.approx(0.001)


def test_four_notifications_are_transient_and_the_fifth_marks_the_cable() -> None:
    sink = Sink()
    sink.escaping = {CABLE}
    sink.send(4)
    assert not sink.source.diverted
    sink.send(1)
    assert sink.source.diverted
    assert [e.kind for e in sink.source.events] == ["notified", "marked", "configured"]
    sink.send(50)
    assert set(sink.used[5:]) == {sink.source.metapath[0]}
    assert not KNOWN.cables[sink.source.metapath[0]] & {CABLE}


def test_a_latency_over_the_link_in_between_begins_the_count_anew() -> None:
    sink = Sink()
    for _ in range(5):
        sink.escaping = {CABLE}
        sink.send(4)
        sink.escaping = set()
        sink.send(1)
    assert not sink.source.diverted
    assert not [e for e in sink.source.events if e.kind == "marked"]


def test_one_packet_in_100_probes_and_an_unescaped_one_clears_the_mark() -> None:
    sink = Sink()
    sink.escaping = {CABLE}
    sink.send(5)
    sink.used.clear()
    sink.send(1000)
    assert Counter(sink.used)[0] == 10
    sink.escaping = set()
    sink.send(100)
    assert not sink.source.diverted
    assert sink.source.events[-2].kind == "cleared"
    sink.used.clear()
    sink.send(10)
    assert set(sink.used) == {0}


def test_silence_is_found_after_five_missing_packets_and_its_time() -> None:
    sink = Sink(silence_s=0.05)
    sink.send(100)
    sink.silent, began_s = {CABLE}, sink.now_s
    while not sink.source.diverted:
        sink.send(1)
    assert sink.now_s - began_s == pytest.approx(0.05 + 5 * 0.001, abs=0.0021)
    lost = sink.lost
    sink.send(1000)
    assert sink.lost == lost  # probes of a silent path are copies
    sink.silent = set()
    sink.send(101)
    assert not sink.source.diverted


def test_after_silence_the_next_path_shares_no_cable_with_the_silent_one() -> None:
    sink = Sink()
    sink.send(60)
    sink.silent = {CABLE}
    sink.send(80)
    assert not KNOWN.cables[sink.source.metapath[0]] & KNOWN.cables[0]


def test_a_gap_before_packets_that_come_again_is_no_silence() -> None:
    sink = Sink()
    sink.send(100)
    sink.silent = {CABLE}
    sink.send(20)
    sink.silent = set()
    sink.send(200)
    assert not sink.source.events


def test_the_controllers_word_marks_at_once_unless_it_is_not_asked() -> None:
    sink = Sink()
    sink.source.on_port(CABLE, False, 0.0)
    assert sink.source.diverted
    sink.source.on_port(CABLE, True, 0.0)
    assert sink.source.diverted  # only a probe may clear it
    told = Sink(link_up="controller")
    told.source.on_port(CABLE, False, 0.0)
    told.source.on_port(CABLE, True, 0.0)
    assert not told.source.diverted
    deaf = Sink(notify="header")
    deaf.source.on_port(CABLE, False, 0.0)
    assert not deaf.source.diverted


def test_a_packet_sent_before_the_failure_proves_nothing_after_it() -> None:
    sink = Sink()
    sink.source.sent(0, 0, 0.0)
    sink.source.on_port(CABLE, False, 0.002)
    sink.source.on_report(0.003, [PacketAck(number=0, latency_s=0.001)], 0.003)
    assert sink.source.diverted


def test_packets_use_a_least_marked_path_if_all_are_marked() -> None:
    sink = Sink()
    for cable in sorted({c for cables in KNOWN.cables for c in cables}):
        sink.source.on_port(cable, False, 0.0)
    sink.send(10)
    fewest = min(len(c) for c in KNOWN.cables)
    assert all(len(KNOWN.cables[path]) == fewest for path in sink.used)


def test_a_slow_metapath_grows_and_a_fast_one_shrinks() -> None:
    sink = Sink(always=True, smoothing=1.0)
    sink.send(60)
    assert sink.source.active == 1
    sink.latency_s = 0.02
    sink.send(300)
    assert sink.source.active == 4
    sink.latency_s = 0.0005
    sink.send(500)
    assert sink.source.active == 1
    assert {"grown", "shrunk"} <= {e.kind for e in sink.source.events}


def test_packets_are_spread_by_bandwidth() -> None:
    sink = Sink(always=True, first_paths=3)
    sink.send(20_000)
    weights = dict(sink.source.weights)
    used = Counter(sink.used[-10_000:])
    for path, share in weights.items():
        assert used[path] / 10_000 == pytest.approx(share, abs=0.02)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=4), st.integers(0, 2**31 - 1))
def test_draws_and_sizes_are_the_simulators(ticks: list[int], draw: int) -> None:
    paths = build_paths(NETWORK)
    parameters = SimulationParameters(
        routing="ft-drb", ft_drb=FtDrbOptions(threshold=2.0, tolerance=0.4, hysteresis=False)
    )
    settings_ = build_settings(parameters)._replace(base_ticks=1000, hop_ticks=500)
    state = build_state(paths, settings_)
    count = len(ticks)
    state.known[1], state.active[1] = 4, count
    state.latency[1, :count] = ticks
    shares = np.cumsum(metapath_bandwidth([float(t) for t in ticks]))
    ours = int(np.searchsorted(shares, draw / 2147483648.0, side="right"))
    if min(abs(shares - draw / 2147483648.0)) > 1e-9:
        assert sample_path(state, 1, draw) == min(ours, count - 1)
    threshold = 2.0 * (1000 + 500 * 1)
    step = metapath_step(
        [float(t) for t in ticks], threshold_s=threshold, tolerance_s=0.4 * threshold
    )
    size_metapath(FtDrb(paths, state, settings_), 0, 1)
    assert int(state.active[1]) == min(max(count + step, 1), 4)


def test_packets_and_reports_round_trip_and_foreign_bytes_are_refused() -> None:
    assert decode_packet(encode_packet(7, 3, 1.5, 64)) == (7, 3, 1.5)
    assert decode_packet(bytes(64)) is None and decode_packet(b"") is None
    acknowledger = Acknowledger(interval_s=0.01, repeats=2)
    acknowledger.receive(7, 1.0, 1.002, 5)
    data = acknowledger.report_due(1.01)
    assert data is not None and acknowledger.report_due(1.011) is None
    made_s, listed = decode_report(data) or (0.0, [])
    assert made_s == 1.01
    assert listed == [PacketAck(number=7, latency_s=pytest.approx(0.002), dead_link=5)]
    assert decode_report(data[:-1]) is None and decode_report(bytes(80)) is None
    again, never = acknowledger.report_due(1.02), acknowledger.report_due(1.03)
    assert again is not None and never is not None
    assert len((decode_report(again) or (0, []))[1]) == 1
    assert not (decode_report(never) or (0, [0]))[1]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"paths": 0}, "paths"),
        ({"first_paths": 5}, "first paths"),
        ({"notifications": 0}, "notifications"),
        ({"probe_every": 1}, "probe_every"),
        ({"tolerance": 1.0}, "tolerance"),
        ({"silence_s": 0.0}, "silence"),
        ({"notify": "nobody"}, "notify"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, object], word: str) -> None:
    with pytest.raises(InputError, match=word):
        MetapathOptions(**options)  # type: ignore[arg-type]
