"""Breadth first through all states that can be reached, and which of them can never be drained.

A state can drain when some order of sure steps (hosts that send, cables and lagging knowledge are not) empties the
network. One that cannot, with the hosts silent, holds packets permanently: a deadlock, of all of the network or of a
part.
"""

from dataclasses import dataclass

from testbed.interconnect.model_checking.compiled.breadth_first import CompiledSearch
from testbed.interconnect.model_checking.symmetry import state_symmetry
from testbed.interconnect.model_checking.transition_system import NacTransitionSystem


@dataclass(frozen=True, kw_only=True)
class Exploration:
    """``states``: reached, of each class of symmetric ones one; ``whole``: none is left out. ``symmetries``: how many a
    class may have.

    ``stuck``: how many cannot drain; ``trace``: the steps to the first of them, each with what it concerns (a link),
    empty where there is none. ``deepest``: steps to the state that is furthest away.
    """

    states: int
    steps: int
    symmetries: int
    deepest: int
    complete: bool
    stuck: int
    trace: tuple[tuple[str, int], ...]
    stuck_state: bytes


def explore(model: NacTransitionSystem, *, most_states: int = 2_000_000) -> Exploration:
    """All states from the empty network on. Where there are more than ``most_states`` it stops, and says so by
    ``whole``.

    Of what was reached until then those are stuck that no sure steps lead out of to a drained state or to one not yet
    looked at.
    """
    symmetries = state_symmetry(model)
    search = CompiledSearch(model, symmetries.images, most_states)
    stuck = search.stuck()
    trace, last = search.trace(int(stuck[0]), symmetries.canonical) if len(stuck) else ((), b"")
    return Exploration(
        states=search.reached, steps=search.steps, symmetries=symmetries.count, deepest=len(search.path_to(search.reached - 1)) - 1,
        complete=search.looked_at == search.reached, stuck=len(stuck), trace=trace, stuck_state=last,
    )  # fmt: skip
