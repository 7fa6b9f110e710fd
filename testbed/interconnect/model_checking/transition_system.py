"""A network whose routers use NAC, as a transition system: the rules and the layout of a state.

A state is a byte string: the destination of every packet, in its buffer; the requests of the heads;
reservations; failed cables; and the recovery signals in transit.
``testbed/interconnect/model_checking/compiled/successors.py`` lists all steps that may follow, in
any order.

The following is left out:

- Times: a packet is in one buffer or the next.
- The local input buffers: hosts send whenever they may.
- The draws of FT-DRB's escape paths: routers know a table for the cables that work.
- Identification packets in transit: see ``Rules.late``.
"""

from dataclasses import dataclass
from functools import cached_property

from testbed.errors import InputError
from testbed.interconnect.model_checking.small_networks import SmallNetwork
from testbed.interconnect.static_paths import NONE
from topologies import lists_by_key

# Decisions that ``Rules.late`` allows to be made with outdated knowledge.
LAGGING = (
    "throttle",  # A host that should be throttled still sends.
    "priority",  # An input goes before an avoidance buffer that could have the output.
    "identification",  # An input is identified that is not, or no longer, in a closed cycle.
    "signal",  # A recovery signal is processed by a former state of its router.
)

# The request of a head that has arrived at its destination.
HERE = 255

# Links are stored in bytes, next to NONE and HERE.
MAX_LINKS = 250

# Cycles are stored in bytes.
_MAX_CYCLES = 255


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The buffers, and the parts of NAC that are used.

    Attributes:
        input_slots: Slots of each input buffer.
        output_slots: Slots of each output buffer; 0: no output buffers.
        nac: Whether NAC is used.
        late: Whether knowledge may be outdated. Credits, identification packets and the throttle
            may then lag by any time: an input that is full and requests an output on a cycle of
            links may be treated as part of a deadlock at any moment. This includes everything that
            an identification packet in transit could cause. Otherwise conditions are judged by the
            current state.
        prompt: Decisions of ``LAGGING`` that are made with current knowledge nevertheless.
        slack: An output counts as full with this many free slots.
        reserve: Whether a freed slot is reserved for the cycle.
        stop_local: Whether local injection stops while a router is blocked or recovers.
        own_request: Whether the avoidance buffer requests the crossbar itself.
        repeat_when_full: Whether identification packets are repeated while the avoidance buffer is
            full.
        recovery_run: Whether the recovery signal travels round the cycle.
        check_output: Whether condition 4.5 is checked.
        recall: Whether heads in the output buffer of a repaired cable are routed again.
        keep_output: Whether a packet that is moved to the avoidance buffer requests the same output
            as before, even if routes have changed since.
        ask_anew: Whether heads of inputs are routed again whenever a cable fails or is repaired,
            and reservations for their previous requests are dropped.

    Raises:
        InputError: A value is out of range, or ``prompt`` names an unknown decision.
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
        unknown = [part for part in self.prompt if part not in LAGGING]
        if unknown:
            raise InputError(
                f"knowledge to explore: {unknown[0]!r} does not lag; give some of "
                f"{', '.join(LAGGING)}"
            )

    def lags(self, part: str) -> bool:
        """Return whether this decision of ``LAGGING`` may be made with outdated knowledge."""
        return self.late and part not in self.prompt


class NacTransitionSystem:
    """A small network under these rules, with the layout of a state and the cycles of links.

    Attributes:
        network: The network.
        rules: The rules.
        links: Number of links.
        a: Slots of an input buffer.
        o: Slots of an output buffer.
        inputs_at: First byte of the input buffers; the output buffers are before them. The other
            attributes ``..._at`` are the first bytes of the avoidance buffers, the reservations,
            the requests of output buffers, inputs and avoidance buffers, the bit set of failed
            cables and the signals.
        start: The router where each link begins.
        end: The router where each link ends.
        into: The links into each router.
    """

    def __init__(self, network: SmallNetwork, rules: Rules) -> None:
        self.network = network
        self.rules = rules
        links = len(network.links)
        if links > MAX_LINKS:
            raise InputError(
                f"{network.name}: {links} links to explore; give a network of {MAX_LINKS} at most"
            )
        self.links = links
        self.a = rules.input_slots
        self.o = rules.output_slots
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
        self.into: list[list[int]] = [[] for _ in range(network.routers)]
        for link, router in enumerate(self.end):
            self.into[router].append(link)

    @property
    def empty(self) -> bytes:
        """The state of an empty network whose cables all work."""
        return bytes(self.signals_at)

    @cached_property
    def cycles(self) -> list[tuple[int, ...]]:
        """The paths on which an identification packet can return to its origin (7).

        A path begins with the blocked input and continues with inputs against the direction of the
        traffic. The last of them is the link that the first one requests.
        """
        requests = self._possible_requests()
        cycles: list[tuple[int, ...]] = []

        def walk(path: tuple[int, ...], out: int) -> None:
            if path[-1] == out:
                cycles.append(path)
                return
            for other in self.into[self.start[path[-1]]]:
                if path[-1] in requests[other] and other not in path:
                    walk((*path, other), out)

        for origin in range(self.links):
            for out in sorted(requests[origin]):
                walk((origin,), out)
        if len(cycles) > _MAX_CYCLES:
            raise InputError(
                f"{self.network.name}: {len(cycles)} cycles of links; explore fewer flows "
                f"({_MAX_CYCLES} at most)"
            )
        return cycles

    @cached_property
    def cycles_of(self) -> dict[tuple[int, int], list[int]]:
        """The numbers of the cycles that begin with an input and end with an output, by both."""
        return lists_by_key(
            ((path[0], path[-1]), number) for number, path in enumerate(self.cycles)
        )

    def _possible_requests(self) -> list[set[int]]:
        """Return the links that a packet from each link may request, whatever fails on its path."""
        tables = self.network.tables.values()
        requests: list[set[int]] = [set() for _ in range(self.links)]
        for router, goal in self.network.places():
            next_links = {table[router][goal] for table in tables} - {NONE}
            for link in next_links:
                requests[link] |= {table[self.end[link]][goal] for table in tables} - {NONE}
        return requests
