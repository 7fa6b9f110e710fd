"""What may happen next in a network whose routers use NAC, readable: the reference engine's decisions without its
clock.

``testbed/interconnect/model_checking/compiled`` is the same in compiled code, and is held against this one, step for
step in the same order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from testbed.interconnect.model_checking.transition_system import HERE, NacTransitionSystem
from testbed.interconnect.static_paths import NONE


class Step(NamedTuple):
    """``sure``: it happens for certain if nothing else does (hosts that send, cables and lagging knowledge are not)."""

    name: str
    link: int
    state: bytes
    sure: bool


class ReadableSteps(NacTransitionSystem):
    """The transition system of one small network under these rules; ``following`` lists all that may come next, in any
    order."""

    def is_drained(self, state: bytes) -> bool:
        """No packet is in the network."""
        return not any(state[: self.reserved_at])

    # -- looking

    def count(self, s: bytes | bytearray, first: int, slots: int) -> int:
        """Packets in a buffer."""
        return slots - bytes(s[first : first + slots]).count(0)

    def room(self, s: bytes | bytearray, link: int) -> int:
        """Slots of the input after the link that its feeder may use: those whose credit a signal still carries count as
        taken."""
        taken = self.count(s, self.inputs_at + link * self.a, self.a)
        for i in range(self.signals_at, len(s), 2):
            taken += self.cycles[s[i]][s[i + 1] - 1] == link
        return self.a - taken

    def room_behind(self, s: bytes | bytearray, link: int) -> int:
        """cap - size of the output's logic buffer."""
        return self.room(s, link) + self.o - self.count(s, link * self.o, self.o)

    def is_full(self, s: bytes | bytearray, link: int) -> bool:
        """Condition 4.3, 4.6."""
        return s[self.inputs_at + link * self.a + self.a - 1] != 0

    def wanted(self, s: bytes | bytearray, link: int) -> int:
        """The link that the input's head asks for; NONE where it is empty or at its destination."""
        asked = s[self.input_asks_at + link]
        return NONE if asked in (0, HERE) else asked - 1

    def is_blocked(self, s: bytes | bytearray, link: int) -> bool:
        """Conditions 4.1 to 4.3."""
        out = self.wanted(s, link)
        return (
            out != NONE and self.is_full(s, link) and self.room_behind(s, out) <= self.rules.slack
        )

    def is_throttled(self, s: bytes | bytearray, router: int) -> bool:
        """stop_fw: an avoidance buffer of the router is in use, or an input is blocked (which it may notice late)."""
        if not self.rules.stop_local:
            return False
        held = any(s[self.avoidance_at + link] for link in self.into[router])
        return held or (
            not self.rules.lags("throttle")
            and any(self.is_blocked(s, link) for link in self.into[router])
        )

    def may_enter(self, s: bytes | bytearray, out: int, holder: int) -> bool:
        """Whether the output takes a packet from that input (NONE: from elsewhere): it has room, not kept for another
        (6)."""
        room = self.o - self.count(s, out * self.o, self.o) if self.o else self.room(s, out)
        if room < 1 or (not self.o and out in self.network.dead_links(s[self.down_at])):
            return False
        kept = s[self.reserved_at + out] - 1
        return kept in (NONE, holder) or self.room_behind(s, out) > 1

    def goes_first(self, s: bytes | bytearray, out: int) -> bool:
        """Whether an avoidance buffer asks for the output and can have it now."""
        return any(
            s[self.avoidance_asks_at + link] == out + 1 and self.may_enter(s, out, link)
            for link in self.into[self.start[out]]
        )

    # -- changing

    def route(self, s: bytearray, router: int, packet: int) -> int:
        """What a head asks for: a link and one, or HERE."""
        link = self.network.tables[s[self.down_at]][router][packet - 1]
        return HERE if link == NONE else link + 1

    def ask(self, s: bytearray, link: int, which: str) -> None:
        """The head of an output buffer, input or avoidance buffer asks for what is routed now."""
        if which == "output":
            head, place, router = link * self.o, self.out_asks_at, self.start[link]
            dead = link in self.network.dead_links(s[self.down_at])
            s[place + link] = (
                0 if not s[head] else self.route(s, router, s[head]) if dead else link + 1
            )
            return
        head = self.inputs_at + link * self.a if which == "input" else self.avoidance_at + link
        place = self.input_asks_at if which == "input" else self.avoidance_asks_at
        s[place + link] = self.route(s, self.end[link], s[head]) if s[head] else 0

    def take(self, s: bytearray, link: int, which: str) -> int:
        """Take the head out of a buffer; the next one asks."""
        if which == "avoidance":
            first, slots = self.avoidance_at + link, 1
        else:
            first, slots = (
                (link * self.o, self.o)
                if which == "output"
                else (self.inputs_at + link * self.a, self.a)
            )
        packet = s[first]
        s[first : first + slots] = s[first + 1 : first + slots] + b"\0"
        self.ask(s, link, which)
        return packet

    def put(self, s: bytearray, link: int, packet: int, which: str) -> None:
        """Put a packet behind the others of an output buffer or input."""
        first, slots = (
            (link * self.o, self.o)
            if which == "output"
            else (self.inputs_at + link * self.a, self.a)
        )
        place = self.count(s, first, slots)
        s[first + place] = packet
        if not place:
            self.ask(s, link, which)

    def enter(self, s: bytearray, out: int, packet: int, holder: int) -> None:
        """Grant the output to a packet from that input; a slot reserved for it is used."""
        self.put(s, out, packet, "output" if self.o else "input")
        if s[self.reserved_at + out] == holder + 1:
            s[self.reserved_at + out] = 0

    # -- what may come next

    def following(self, state: bytes) -> Iterator[Step]:
        """All that may happen next."""
        yield from self._injections(state)
        for link in range(self.links):
            yield from self._from_inputs(state, link)
            if self.o:
                yield from self._over_link(state, link)
        if self.rules.nac:
            yield from self._closings(state)
            yield from self._signals(state)
        if self.network.cables:
            yield from self._cable_changes(state)

    def _injections(self, state: bytes) -> Iterator[Step]:
        """A host sends a packet of one of its flows."""
        for source, goal in self.network.flows:
            out = self.network.tables[state[self.down_at]][source][goal]
            if out == NONE or not self.may_enter(state, out, NONE):
                continue
            if self.rules.nac and (
                self.is_throttled(state, source)
                or (not self.rules.lags("priority") and self.goes_first(state, out))
            ):
                continue
            s = bytearray(state)
            self.enter(s, out, goal + 1, NONE)
            yield Step(f"host {source} sends to {goal}", out, bytes(s), False)

    def _from_inputs(self, state: bytes, link: int) -> Iterator[Step]:
        """The head of an input or avoidance buffer goes into its output, or to its host."""
        for which, asks_at in (
            ("input", self.input_asks_at),
            ("avoidance", self.avoidance_asks_at),
        ):
            asked = state[asks_at + link]
            if not asked:
                continue
            if which == "input" and not self.rules.own_request and state[self.avoidance_at + link]:
                continue
            if asked != HERE:
                if not self.may_enter(state, asked - 1, link):
                    continue
                if (
                    which == "input"
                    and not self.rules.lags("priority")
                    and self.goes_first(state, asked - 1)
                ):
                    continue
            s = bytearray(state)
            packet = self.take(s, link, which)
            if asked != HERE:
                self.enter(s, asked - 1, packet, link)
            yield Step(
                f"{which} to {'its host' if asked == HERE else f'link {asked - 1}'}",
                link,
                bytes(s),
                True,
            )

    def _over_link(self, state: bytes, link: int) -> Iterator[Step]:
        """The head of an output buffer goes over its link, or where that is dead into another output."""
        asked = state[self.out_asks_at + link]
        if not asked:
            return
        own = asked - 1 == link
        if own and (
            link in self.network.dead_links(state[self.down_at]) or self.room(state, link) < 1
        ):
            return
        if not own and asked != HERE and not self.may_enter(state, asked - 1, NONE):
            return
        s = bytearray(state)
        packet = self.take(s, link, "output")
        if own:
            self.put(s, link, packet, "input")
        elif asked != HERE:
            self.enter(s, asked - 1, packet, NONE)
        yield Step(
            "over the link" if own else f"rerouted to link {asked - 1}", link, bytes(s), True
        )

    def _closings(self, state: bytes) -> Iterator[Step]:
        """An input finds itself on a cycle: move(a, d), and the signal sets off against the traffic."""
        for link in range(self.links):
            out = self.wanted(state, link)
            if out == NONE or not self.is_full(state, link) or state[self.avoidance_at + link]:
                continue
            blocked = self.is_blocked(state, link)
            for number in self.cycles_of.get((link, out), ()):
                real = blocked and self._is_closed(state, self.cycles[number])
                if real or self.rules.lags("identification"):
                    s = bytearray(state)
                    self._move(s, number, 0)
                    yield Step(f"cycle {self.cycles[number]} identified", link, bytes(s), real)

    def _is_closed(self, state: bytes, path: tuple[int, ...]) -> bool:
        """Whether every input of the cycle is blocked now and asks for the one before it."""
        return all(
            self.wanted(state, other) == before
            and self.is_blocked(state, other)
            and (self.rules.repeat_when_full or not state[self.avoidance_at + other])
            for before, other in itertools.pairwise(path)
        )

    def _move(self, s: bytearray, number: int, place: int) -> None:
        """move(a, d) at that place of the cycle; the freed slot's credit goes with the signal (10)."""
        link = self.cycles[number][place]
        asked = s[self.input_asks_at + link]
        packet = self.take(s, link, "input")
        s[self.avoidance_at + link] = packet
        if self.rules.keep_output:
            s[self.avoidance_asks_at + link] = asked
        else:
            self.ask(s, link, "avoidance")
        pairs = [(s[i], s[i + 1]) for i in range(self.signals_at, len(s), 2)]
        s[self.signals_at :] = bytes(
            v for pair in sorted([*pairs, (number, place + 1)]) for v in pair
        )

    def _signals(self, state: bytes) -> Iterator[Step]:
        """A recovery signal arrives: conditions 4.4 to 4.7 at the router before the freed slot."""
        for i in range(self.signals_at, len(state), 2):
            if i > self.signals_at and state[i : i + 2] == state[i - 2 : i]:
                continue
            number, place = state[i], state[i + 1]
            path = self.cycles[number]
            out, link = path[place - 1], path[place % len(path)]
            left = state[:i] + state[i + 2 :]
            asks = self.wanted(left, link) == out or not (
                self.rules.check_output or not left[self.input_asks_at + link]
            )
            full = asks and self.is_full(left, link)
            wants = full and self.room_behind(left, out) <= 1
            goes_on = (
                place < len(path) and self.rules.recovery_run and not left[self.avoidance_at + link]
            )
            outcomes = {(wants, wants and goes_on): True}
            if (
                self.rules.lags("signal") and full
            ):  # credits under way, a head or tail that is still arriving
                for outcome in ((True, goes_on), (True, False), (False, False)):
                    outcomes.setdefault(outcome, False)
            for (wanting, moving), sure in outcomes.items():
                s = bytearray(left)
                avoided = s[self.avoidance_asks_at + link] == out + 1
                if (
                    self.rules.reserve
                    and (wanting or avoided)
                    and s[self.reserved_at + out] in (0, link + 1)
                ):
                    s[self.reserved_at + out] = link + 1
                if moving:
                    self._move(s, number, place)
                yield Step("signal: " + _outcome(wanting or avoided, moving), link, bytes(s), sure)

    def _cable_changes(self, state: bytes) -> Iterator[Step]:
        """A cable fails, or works again."""
        down = state[self.down_at]
        for cable, links in enumerate(self.network.cables):
            bit = 1 << cable
            if not down & bit and down.bit_count() >= self.network.most_down:
                continue
            s = bytearray(state)
            s[self.down_at] ^= bit
            for link in links:
                s[self.reserved_at + link] = 0
            if not down & bit:
                self._leave(s, links)
            elif self.rules.recall:
                for link in links:
                    self.ask(s, link, "output") if self.o else None
            if self.rules.ask_anew:
                self.ask_all_anew(s)
            yield Step(
                f"cable {cable} {'works again' if down & bit else 'fails'}",
                links[0],
                bytes(s),
                False,
            )

    def ask_all_anew(self, s: bytearray) -> None:
        """Heads of inputs ask for what is routed now, and slots kept for heads that ask for another output are kept no
        more."""
        for link in range(self.links):
            self.ask(s, link, "input")
        for out in range(self.links):
            holder = s[self.reserved_at + out] - 1
            if holder >= 0 and out + 1 not in (
                s[self.input_asks_at + holder],
                s[self.avoidance_asks_at + holder],
            ):
                s[self.reserved_at + out] = 0

    def _leave(self, s: bytearray, dead: tuple[int, ...]) -> None:
        """Heads that ask for a dead link ask anew."""
        for link in range(self.links):
            for which, asks_at in (
                ("output", self.out_asks_at),
                ("input", self.input_asks_at),
                ("avoidance", self.avoidance_asks_at),
            ):
                if s[asks_at + link] - 1 in dead:
                    self.ask(s, link, which)


def _outcome(kept: bool, moved: bool) -> str:
    return "moved on" if moved else "slot kept" if kept else "normal again"
