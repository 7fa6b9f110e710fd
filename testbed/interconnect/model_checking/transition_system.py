"""A network whose routers use NAC as a transition system: the rules, and where what is in a state.

A state is a string of bytes: every packet by its destination, in its buffer; what the heads ask for; what is reserved;
which cables have failed; the recovery signals under way. ``testbed/interconnect/model_checking/compiled/successors.py``
lists all that may come next, in any order. Left out are times (a packet is in one buffer or the next), the local input
buffers (hosts send whenever they may), how FT-DRB draws its escape paths (routers know a table for what is left), and
identification packets in transit: see ``Rules.late``.
"""

from dataclasses import dataclass
from functools import cached_property

from testbed.errors import InputError
from testbed.interconnect.model_checking.small_networks import SmallNetwork
from testbed.interconnect.static_paths import NONE
from topologies import lists_by_key

LAGGING = ("throttle", "priority", "identification", "signal")
"""What ``Rules.late`` lets lag: a host that is to be throttled still sends; an input goes before an avoidance buffer
that could have the output; an input that is no part of a closed cycle (any more) is identified; a signal finds other
than is."""
HERE = 255
"""What the head asks for whose destination this router is."""
MOST_LINKS = 250


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Slots of each input and output buffer (0: no output buffers), and NAC with or without one of its parts.

    ``late``: knowledge may be old. Credits, identification packets and the throttle may lag by any time: an input that
    is full and asks for an output on a cycle of links may be taken for part of a deadlock at any moment. All that an
    identification packet under way could do is among that. Without it, conditions are judged by the state as it is.
    ``prompt``: what of ``LAGGING`` does not lag even so. ``recall``: heads in the output buffer of a cable that works
    again ask again. ``ask_anew``: heads of inputs do, too, whenever a cable fails or works again, whatever they
    requested, and slots kept for what they requested are kept no more. ``check_output``: condition 4.5.
    ``keep_output``: a packet that is moved aside asks for the same output as before, even if routes have changed since.
    """

    input_slots: int = 1
    output_slots: int = 0
    nac: bool = True
    late: bool = False
    prompt: tuple[str, ...] = ()
    slack: int = 0
    reserve: bool = True
    stop_local: bool = True
    own_request: bool = True
    repeat_when_full: bool = True
    recovery_run: bool = True
    check_output: bool = True
    recall: bool = True
    keep_output: bool = True
    ask_anew: bool = False

    def __post_init__(self) -> None:
        if not (1 <= self.input_slots <= 4 and 0 <= self.output_slots <= 4):
            raise InputError("buffers to explore: give 1 to 4 slots an input and 0 to 4 an output")
        if unknown := [part for part in self.prompt if part not in LAGGING]:
            raise InputError(
                f"knowledge to explore: {unknown[0]!r} does not lag; give some of "
                f"{', '.join(LAGGING)}"
            )

    def lags(self, part: str) -> bool:
        """Whether that (of ``LAGGING``) may be by old knowledge."""
        return self.late and part not in self.prompt


class NacTransitionSystem:
    """One small network under these rules: where each buffer, request and reservation is in a state, and its cycles of
    links."""

    def __init__(self, network: SmallNetwork, rules: Rules) -> None:
        self.network, self.rules = network, rules
        links = len(network.links)
        if links > MOST_LINKS:
            raise InputError(
                f"{network.name}: {links} links to explore; give a network of {MOST_LINKS} at most"
            )
        self.links, self.a, self.o = links, rules.input_slots, rules.output_slots
        self.inputs_at = links * self.o
        self.avoidance_at = self.inputs_at + links * self.a
        self.reserved_at = self.avoidance_at + links
        self.out_asks_at = self.reserved_at + links
        self.input_asks_at = self.out_asks_at + links
        self.avoidance_asks_at = self.input_asks_at + links
        self.down_at = self.avoidance_asks_at + links
        self.signals_at = self.down_at + 1
        self.start = [a for a, _ in network.links]
        self.end = [b for _, b in network.links]
        self.into = [[i for i in range(links) if self.end[i] == r] for r in range(network.routers)]

    @property
    def empty(self) -> bytes:
        """Nothing anywhere, all cables work."""
        return bytes(self.signals_at)

    @cached_property
    def cycles(self) -> list[tuple[int, ...]]:
        """The ways that an identification packet can go and come back by: its input, then inputs against the traffic
        (7).

        The last of them is the link that the first one asks for.
        """
        wants = self._may_want()
        found: list[tuple[int, ...]] = []

        def walk(path: tuple[int, ...], out: int) -> None:
            if path[-1] == out:
                found.append(path)
                return
            for other in self.into[self.start[path[-1]]]:
                if path[-1] in wants[other] and other not in path:
                    walk((*path, other), out)

        for origin in range(self.links):
            for out in sorted(wants[origin]):
                walk((origin,), out)
        if len(found) > 255:
            raise InputError(
                f"{self.network.name}: {len(found)} cycles of links; explore fewer flows (255 at "
                "most)"
            )
        return found

    @cached_property
    def cycles_of(self) -> dict[tuple[int, int], list[int]]:
        """(input, output) -> numbers of the cycles that both are on."""
        return lists_by_key(
            ((path[0], path[-1]), number) for number, path in enumerate(self.cycles)
        )

    def _may_want(self) -> list[set[int]]:
        """Of each link the links that a packet which has come over it may ask for, whatever has failed on its way."""
        tables = self.network.tables.values()
        wants: list[set[int]] = [set() for _ in range(self.links)]
        for router, goal in self.network.places():
            onwards = {table[router][goal] for table in tables} - {NONE}
            for into in onwards:
                wants[into] |= {table[self.end[into]][goal] for table in tables} - {NONE}
        return wants
