"""The exploration of NAC in every order of events: what it finds, and that the reference engine's own runs are among
its steps."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from testbed.errors import InputError
from testbed.interconnect.engine_inputs import Recording, build_inputs
from testbed.interconnect.model_checking.compiled.model_tables import MAX_SIGNALS
from testbed.interconnect.model_checking.compiled.state_access import add_signal, drop_signal
from testbed.interconnect.model_checking.exploration import CompiledSearch, explore
from testbed.interconnect.model_checking.small_networks import (
    one_way_ring,
    small_network,
    two_rings,
)
from testbed.interconnect.model_checking.symmetry import state_images, symmetries
from testbed.interconnect.model_checking.transition_system import LAGGING, Rules
from testbed.interconnect.network_model import build_model
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.traffic.injection import (
    InjectionProcess,
    Injections,
    build_injections,
    build_pattern,
)
from tests.helpers.study_rows import published
from tests.oracles.exhaustive.exploration import Search, canonical_by, explore_readably
from tests.oracles.exhaustive.nac_steps import ReadableSteps
from tests.oracles.interconnect import simulate
from tests.oracles.interconnect.nac import Nac
from tests.oracles.interconnect.reference_engine import ReferenceEngine
from tests.oracles.interconnect.reference_parts import Buffer, Channel
from topologies import load_network


@pytest.mark.parametrize(("slots", "outputs"), [(1, 0), (2, 0), (1, 1)])
@pytest.mark.parametrize("late", [False, True])
def test_nac_never_sticks_on_a_ring_of_three_where_no_avoidance_does(
    slots: int, outputs: int, late: bool
) -> None:
    ring = one_way_ring(3, (1, 2) if outputs == 0 else (2,))
    bare = explore(ReadableSteps(ring, Rules(nac=False, input_slots=slots, output_slots=outputs)))
    treated = explore(
        ReadableSteps(ring, Rules(late=late, input_slots=slots, output_slots=outputs))
    )
    assert bare.complete and bare.stuck > 0
    assert treated.complete and treated.stuck == 0 and treated.states > bare.states


def test_a_full_ring_is_the_shortest_deadlock_without_nac() -> None:
    found = explore(ReadableSteps(one_way_ring(4, (2,)), Rules(nac=False)))
    assert (found.stuck, len(found.trace)) == (1, 4)
    assert {name for name, _ in found.trace} == {
        f"host {r} sends to {(r + 2) % 4}" for r in range(4)
    }


@pytest.mark.parametrize(
    ("network", "rules"),
    [
        (one_way_ring(3, (1, 2)), Rules(output_slots=1, late=True, stop_local=False)),
        (one_way_ring(3, (1, 2)), Rules(input_slots=2, own_request=False)),
        (one_way_ring(3, (1, 2)), Rules(input_slots=2, repeat_when_full=False)),
        (small_network("ring:4", [(2, 0), (3, 1)], [(0, 1)], 1), Rules(keep_output=False)),
    ],
    ids=["throttle", "request of its own", "repeating", "keeps its output"],
)
def test_nac_without_one_of_its_parts_sticks(network: Any, rules: Rules) -> None:
    found = explore(ReadableSteps(network, rules))
    assert found.stuck > 0 and found.trace
    state, model = ReadableSteps(network, rules).empty, ReadableSteps(network, rules)
    for name, link in found.trace:
        state = next(s.state for s in model.following(state) if (s.name, s.link) == (name, link))
    assert _cannot_drain(model, state)


def _cannot_drain(model: ReadableSteps, state: bytes) -> bool:
    """By a search of its own, forward from the state."""
    seen, waiting = {state}, [state]
    for at in waiting:
        if model.is_drained(at):
            return False
        new = {step.state for step in model.following(at) if step.sure} - seen
        seen |= new
        waiting += new
    return True


def test_old_requests_deadlock_after_a_repair_and_new_requests_do_not() -> None:
    """The deadlock that a burst on an 8x8 torus with transient failures met in 26 of 600 runs, in 13 steps on four
    routers."""
    ring = small_network("ring:4", [(0, 2), (3, 1)], [(0, 1)], 1)
    model = ReadableSteps(ring, Rules(output_slots=1, recall=False))
    found = explore(model, most_states=40_000)
    assert found.stuck and _cannot_drain(model, found.stuck_state)
    assert "works again" in " ".join(name for name, _ in found.trace)
    cured = ReadableSteps(ring, Rules(output_slots=1))
    assert not _cannot_drain(cured, _after(cured, found.trace))


def test_stale_routers_deadlock_if_a_mesh_cable_flaps() -> None:
    """Two routers put a packet aside each without need, and then packets turn round between them for which no slot is
    left.

    Where conditions are judged in the present state this does not happen on the same network.
    """
    mesh = small_network("mesh:2x3", [(1, 2), (5, 0)], [(0, 1), (4, 5)], 2)
    old, prompt = ReadableSteps(mesh, Rules(late=True)), ReadableSteps(mesh, Rules())
    found = explore(old)
    assert found.complete and found.stuck == 640 and _cannot_drain(old, found.stuck_state)
    held = [
        mesh.links[i] for i in range(len(mesh.links)) if found.stuck_state[old.avoidance_at + i]
    ]
    assert held == [(1, 4), (4, 1)]
    judged = explore(prompt)
    assert judged.complete and judged.stuck == 0


MESH = small_network("mesh:2x3", [(1, 2), (5, 0)], [(0, 1), (4, 5)], 2)
TORUS = small_network("torus:2x3", [(0, 1), (2, 1)], [(0, 1), (1, 2)], 2)


def test_priority_of_avoidance_buffers_must_use_current_knowledge() -> None:
    """By the throttle, identifications and signals of any age, together, nothing is stuck on the mesh; by the priority
    alone all 640 states are."""
    others = tuple(part for part in LAGGING if part != "priority")
    alone = explore(ReadableSteps(MESH, Rules(late=True, prompt=others)))
    rest = explore(ReadableSteps(MESH, Rules(late=True, prompt=("priority",))))
    assert (alone.complete, alone.stuck, rest.complete, rest.stuck) == (True, 640, True, 0)
    assert rest.states > alone.states
    with pytest.raises(InputError, match="'credits' does not lag"):
        Rules(late=True, prompt=("credits",))


def test_no_input_goes_before_an_avoidance_buffer_that_can_have_the_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the exploration calls the priority is prompt in the reference engine: in its runs, an input's message is
    never granted an output while a packet put aside at the same router asks for it, is ready and could have it."""
    met: list[bool] = []
    grant = ReferenceEngine.grant

    def watched(engine: ReferenceEngine, channel: Channel, buffer: Buffer, there: Buffer) -> None:
        first, data = engine.layout.avoidance_queue, buffer.here[0].is_data
        for other in channel.askers:
            if (
                data
                and other.number >= first
                and max(engine.read_until[other.reader], other.ready) <= engine.now
            ):
                could = engine.avoidance.may_request(other) and engine.open_lane(other) is not None
                met.append(could and buffer.number < first)
        grant(engine, channel, buffer, there)

    monkeypatch.setattr(ReferenceEngine, "grant", watched)
    parameters = SimulationParameters(
        model="thesis", deadlock="nac", packet_bytes=2048, buffer_bytes=4096, seed=1
    )
    network = load_network("ring:8")
    process = InjectionProcess(rate_per_s=parameters.packets_per_s(0.9))
    sent = build_injections(build_pattern("tornado", 8), process, duration_s=0.001, seed=1)
    run = simulate(network, sent, parameters, engine="reference")
    assert run.nac_counters["moved"] > 50 and len(met) > 50
    assert not any(met)


def test_nac_deadlocks_if_two_torus_cables_flap() -> None:
    """The stored trace of 72 steps, every one of them by the present state: two routers' avoidance buffers hold packets
    for outputs on which the inputs wait that these buffers are to free. The whole exploration takes 45 million states
    and is the study's."""
    row = next(row for row in published("interconnect_nac_exhaustive") if row.get("most_states"))
    assert row["whole"] and row["stuck"] == 257_956 and row["states"] == 44_767_896
    model = ReadableSteps(TORUS, Rules())
    state = model.empty
    for name, link in row["trace"]:
        state = next(
            step.state for step in model.following(state) if [step.name, step.link] == [name, link]
        )
    assert _cannot_drain(model, state)
    aside = [TORUS.links[i] for i in range(model.links) if state[model.avoidance_at + i]]
    assert aside == [(0, 3), (2, 0), (0, 2)]


@pytest.mark.parametrize(("network", "late"), [(TORUS, False), (MESH, False), (MESH, True)])
def test_nothing_blocks_if_heads_request_again_after_each_change(network: Any, late: bool) -> None:
    found = explore(ReadableSteps(network, Rules(late=late, ask_anew=True)))
    assert found.complete and found.stuck == 0 and found.states > 2000


def _after(model: ReadableSteps, trace: Any) -> bytes:
    """The same steps as far as they can be taken (heads that were asked anew go elsewhere)."""
    state = model.empty
    for name, link in trace:
        state = next(
            (s.state for s in model.following(state) if (s.name, s.link) == (name, link)), state
        )
    return state


def test_symmetric_states_are_counted_once_and_nothing_is_lost_by_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ring = one_way_ring(4, (1, 2, 3))
    assert len(symmetries(ring)) == 4 and len(symmetries(two_rings())) == 1
    reduced = explore(ReadableSteps(ring, Rules()))
    alone = ((0, 1, 2, 3), list(range(len(ring.links))), list[int]())
    monkeypatch.setattr(
        "testbed.interconnect.model_checking.symmetry.symmetries", lambda network: [alone]
    )
    whole = explore(ReadableSteps(ring, Rules()))
    assert reduced.stuck == whole.stuck == 0 and reduced.deepest == whole.deepest
    assert whole.states / 4 <= reduced.states < whole.states / 3


COMPARED = (
    (one_way_ring(3, (1, 2)), Rules(output_slots=1)),
    (one_way_ring(3, (1, 2)), Rules(late=True)),
    (one_way_ring(3, (1, 2)), Rules(input_slots=2, own_request=False)),
    (one_way_ring(3, (1, 2)), Rules(input_slots=2, repeat_when_full=False)),
    (one_way_ring(4, (2,)), Rules(nac=False)),
    (two_rings(), Rules(slack=1, recovery_run=False)),
    (
        small_network("ring:4", [(2, 0), (3, 1)], [(0, 1)], 1),
        Rules(keep_output=False, check_output=False, late=True),
    ),
    (
        small_network("ring:4", [(0, 2), (3, 1)], [(0, 1)], 1),
        Rules(output_slots=1, recall=False, reserve=False),
    ),
    (TORUS, Rules()),
    (TORUS, Rules(late=True, ask_anew=True)),
    *((MESH, Rules(late=True, prompt=(part,))) for part in LAGGING),
)
"""Every rule at both its values somewhere; rings, symmetric ones and others, cables that fail, one and two at once."""


@pytest.mark.parametrize("case", range(len(COMPARED)))
def test_compiled_steps_find_the_same_states_in_the_same_order(case: int) -> None:
    """Counts, the depth, how many are stuck, the trace to the first of them, and what is left out where it stops
    early."""
    model = ReadableSteps(*COMPARED[case])
    compiled = explore(model, most_states=1500)
    assert compiled == explore_readably(model, most_states=1500)
    assert compiled.states > 10


def test_compiled_steps_reach_the_same_states() -> None:
    model = ReadableSteps(small_network("ring:4", [(0, 2), (3, 1)], [(0, 1)], 1), Rules())
    images = state_images(model)
    compiled = CompiledSearch(model, images, 10_000)
    reference = Search(model, canonical_by(model, images), 10_000)
    assert reference.order == [compiled.path_to(i)[-1] for i in range(compiled.reached)]
    assert list(reference.edges_to) == compiled.sure_targets.tolist()


def test_signals_are_kept_in_order_and_too_many_are_told() -> None:
    """The rival: the ninth signal of a row would be left out, and with it all that could follow from it."""
    tables, row = SimpleNamespace(signals_at=3), np.zeros(3 + 2 * MAX_SIGNALS + 5, np.uint8)
    for number, place in ((5, 1), (2, 7), (5, 1), (0, 3), (2, 6), (9, 1), (1, 1), (3, 2)):
        assert add_signal(tables, row, number, place)
    assert row[3:19].tolist() == [0, 3, 1, 1, 2, 6, 2, 7, 3, 2, 5, 1, 5, 1, 9, 1]
    assert not add_signal(tables, row, 4, 4)
    drop_signal(tables, row, 2)
    assert row[3:19].tolist() == [0, 3, 1, 1, 2, 7, 3, 2, 5, 1, 5, 1, 9, 1, 0, 0]


def test_too_many_states_are_reported_and_nothing_is_concluded() -> None:
    found = explore(ReadableSteps(one_way_ring(4, (1, 2, 3)), Rules()), most_states=100)
    assert not found.complete and found.stuck == 0


def test_unsupported_explorations_are_input_errors() -> None:
    with pytest.raises(InputError, match="no way"):
        small_network("ring:4", [(0, 2)], [(0, 1), (0, 3)], 2)
    with pytest.raises(InputError, match="none of the flows"):
        small_network("ring:5", [(0, 1)], [(2, 3)], 1)
    with pytest.raises(InputError, match="slots"):
        Rules(input_slots=0)


class Watched:
    """The reference engine's run, seen as the explored system sees it: every change must be one of the steps that may
    follow."""

    def __init__(self, engine: ReferenceEngine, nac: Nac, model: ReadableSteps) -> None:
        self.engine, self.nac, self.model = engine, nac, model
        ends = list(zip(engine.links.start.tolist(), engine.links.end.tolist(), strict=True))
        self.old = [ends.index(pair) for pair in model.network.links]
        self.new = {old: new for new, old in enumerate(self.old)}
        self.state, self.changes, self.kinds = model.empty, 0, set[str]()

    def step(self) -> None:
        state = self.seen()
        if state == self.state:
            return
        found = [step.name for step in self.model.following(self.state) if step.state == state]
        assert found, f"change {self.changes} of the engine is none of the steps explored"
        self.kinds.add(found[0].split()[0])
        self.state = state
        self.changes += 1

    def seen(self) -> bytes:
        model, nac = self.model, self.nac
        s = bytearray(model.empty)
        for new, old in enumerate(self.old):
            if model.o:
                model_put(
                    model,
                    s,
                    new,
                    self.engine.behind(self.engine.layout.links + old, 0),
                    new * model.o,
                    "output",
                )
            model_put(
                model, s, new, self.engine.behind(old, 0), model.inputs_at + new * model.a, "input"
            )
            model_put(model, s, new, nac.avoidance_of(old), model.avoidance_at + new, "avoidance")
            s[model.reserved_at + new] = self.new.get(nac.reserved.get(old, -1), -1) + 1
        pairs = sorted(
            (model.cycles.index(tuple(self.new[link] for link in signal.path)), signal.place)
            for signal in nac.signals.values()
        )
        return bytes(s) + bytes(v for pair in pairs for v in pair)


def model_put(
    model: ReadableSteps, s: bytearray, link: int, buffer: Buffer, first: int, which: str
) -> None:
    """The buffer's packets, by destination, and what the head asks for."""
    for slot, packet in enumerate((*buffer.here, *buffer.coming)):
        s[first + slot] = packet.destination + 1
    model.ask(s, link, which)


MESSAGES = 300


def watched_run(
    hop_model: str,
    slots: int,
    routers: int,
    apart_ps: int,
    spoil: Callable[[Nac], None] = lambda nac: None,
) -> tuple[Watched, int]:
    """Tornado on a ring: a burst of all hosts at once, or messages one after another; what was seen, and how many
    arrived."""
    network, hops = load_network(f"ring:{routers}"), (routers - 1) // 2
    rules = Rules(input_slots=slots, output_slots=slots if hop_model == "thesis" else 0, late=True)
    flows = [(r, (r + hops) % routers) for r in range(routers)]
    explored = ReadableSteps(small_network(f"ring:{routers}", flows), rules)
    parameters = SimulationParameters(model=hop_model, deadlock="nac", buffer_bytes=2048 * slots)
    source = np.arange(MESSAGES, dtype=np.int32) % routers
    injections = Injections(
        time_ps=apart_ps * np.arange(MESSAGES, dtype=np.int64),
        source=source,
        destination=((source + hops) % routers).astype(np.int32),
    )
    engine = ReferenceEngine(
        build_inputs(build_model(network, parameters), injections, parameters, (), Recording())
    )
    nac = Nac(engine, 0)
    engine.avoidance = nac
    spoil(nac)
    watched = Watched(engine, nac, explored)
    grant, move, receive = engine.grant, nac.move, nac.receive_recovery_signal
    inside: list[int] = []

    def watched_grant(channel: Channel, buffer: Buffer, there: Buffer) -> None:
        grant(channel, buffer, there)
        watched.step()

    def watched_signal(number: int) -> int:
        inside.append(number)
        found = receive(number)
        inside.pop()
        watched.step()
        return found

    def watched_move(link: int, path: tuple[int, ...], place: int, number: int) -> None:
        move(link, path, place, number)
        if not inside:
            watched.step()

    for place, name, function in (
        (engine, "grant", watched_grant),
        (nac, "receive_recovery_signal", watched_signal),
        (nac, "move", watched_move),
    ):
        setattr(place, name, function)
    engine.run()
    return watched, engine.deliveries


@pytest.mark.parametrize(
    ("hop_model", "slots", "routers", "apart_ps"),
    [("thesis", 1, 8, 0), ("thesis", 2, 8, 0), ("booksim", 1, 5, 1_000_000), ("booksim", 2, 8, 0)],
)
def test_every_change_of_the_reference_engine_is_an_explored_step(
    hop_model: str, slots: int, routers: int, apart_ps: int
) -> None:
    watched, delivered = watched_run(hop_model, slots, routers, apart_ps)
    assert delivered == MESSAGES and watched.nac.counters["moved"] > 0
    assert {"host", "input", "avoidance", "cycle", "signal:"} <= watched.kinds
    assert watched.changes > 3 * MESSAGES


def test_engine_that_moves_the_last_packet_takes_unexplored_steps() -> None:
    def spoil(nac: Nac) -> None:
        move = nac.move

        def move_last(link: int, path: tuple[int, ...], place: int, number: int) -> None:
            nac.input_of(link).here.rotate(1)
            move(link, path, place, number)

        setattr(nac, "move", move_last)  # noqa: B010 - another method in its place

    with pytest.raises(AssertionError, match="none of the steps explored"):
        watched_run("booksim", 2, 8, 0, spoil)
