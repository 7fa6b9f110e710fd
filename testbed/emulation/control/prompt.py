"""Mininet's prompt over an emulated network, with commands for faults, counters and recordings.

Lines from a pipe are executed like typed ones; the first wrong one is remembered for the exit code.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TextIO

from mininet.cli import CLI
from mininet.log import lg

from testbed.emulation.control.fault_injection import begin_fault, end_fault
from testbed.errors import InputError, TestbedError
from testbed.faults.fault import Fault
from testbed.faults.grammar import parse_fault, parse_link

if TYPE_CHECKING:
    from testbed.emulation.network.emulated_network import EmulatedNetwork


class Prompt(CLI):  # type: ignore[misc]
    """The prompt; runs until ``exit`` or the end of ``stdin``. ``wrong``: commands that could not be understood."""

    def __init__(self, network: EmulatedNetwork, stdin: TextIO | None = None) -> None:
        self.network = network
        self.wrong = 0
        self._standing: dict[str, Fault] = {}
        for handler in lg.handlers:
            handler.stream = sys.stdout  # what commands print is the prompt's output, not diagnostics
        source = stdin or sys.stdin
        if not source.isatty():
            self.prompt = ""
        super().__init__(network.mininet, stdin=source)

    def run(self) -> None:
        """Ctrl-C ends the running command at a terminal, and everything where commands come from a pipe."""
        if self.isatty():
            super().run()
        else:
            self.cmdloop()

    @classmethod
    def initReadline(cls) -> None:  # noqa: N802 - Mininet's name
        """Line editing, but no history file: a run leaves nothing behind."""
        if sys.stdin.isatty():
            import readline

            readline.set_history_length(1000)

    def precmd(self, line: str) -> str:
        """A comment begins with # at the start of a line or after a space: in a->b#1 it belongs to the link's name."""
        return line.lstrip() and (" " + line).split(" #")[0].strip()

    def default(self, line: str) -> None:
        """A node's name and a command for it; anything else is wrong."""
        first = line.split(maxsplit=1)[0]
        if first != "EOF" and first not in self.mn:
            self._complain(f"unknown command {first!r}; help lists the commands, nodes the nodes")
            return
        super().default(line)

    def waitForNode(self, node: Any) -> None:  # noqa: N802 - Mininet's name
        """Show what the node's command prints until it ends; what waits in a pipe is the prompt's, not the command's."""
        if self.isatty():
            super().waitForNode(node)
            return
        while node.waiting:
            sys.stdout.write(node.monitor(timeoutms=1000))
            sys.stdout.flush()

    def do_EOF(self, line: str) -> Any:  # noqa: N802 - Mininet's name
        """The end of the input ends the prompt."""
        if self.isatty():
            print()
        return True

    def do_fault(self, line: str) -> None:
        """Break or impair a link: fault LINK [down | blackhole | loss FRACTION | IMPAIRMENT ...] [one-way]

        LINK is a->b in the network's own names. down: no carrier (one-way: a blackhole of that direction).
        IMPAIRMENT is loss:F, ge:p=P,r=R, delay:S,jitter=J, jitter:J, reorder:F, duplicate:F or trace:FILE.
        Without arguments: list the faults that stand."""
        words = line.split()
        if not words:
            for text, fault in self._standing.items():
                print(f"{text} {fault.words} {fault.direction}")
            return
        self._execute(lambda: self._break(words))

    def do_restore(self, line: str) -> None:
        """Mend a link that a fault broke: restore LINK | restore all"""
        words = line.split()
        names = list(self._standing) if words == ["all"] else words
        for name in names:
            self._execute(lambda name=name: self._mend(name))
        if not words:
            self._complain("restore: give a link, a->b, or all")

    def do_loads(self, line: str) -> None:
        """What every link has carried: packets, bytes, packets dropped (links that carried nothing are left out)."""
        for link, (packets, size, drops) in self.network.link_counters().items():
            if packets or drops:
                print(f"{_text(link):20} {packets:10} packets {size:12} bytes {drops:8} dropped")

    def do_capture(self, line: str) -> None:
        """Record what arrives over a link until the end: capture LINK FILE"""
        words = line.split()
        if len(words) != 2:
            self._complain("capture: give a link, a->b, and a file")
            return
        self._execute(lambda: print(f"recording {words[0]} to {self._capture(*words)}"))

    def do_names(self, _line: str) -> None:
        """The network's own names of hosts and switches beside those of their devices, addresses and ports."""
        for host in self.network.wiring.hosts:
            print(f"{host.name:8} {host.node:12} {host.ip:15} {'for the switch' if host.outside else ''}".rstrip())
        for switch in self.network.wiring.switches:
            print(f"{switch.name:8} {switch.node:12} datapath id {switch.dpid}")

    def _capture(self, link: str, path: str) -> str:
        self.network.start_capture(self._link(link), path)
        return path

    def _break(self, words: list[str]) -> None:
        fault = parse_fault(" ".join(words), self.network.wiring.network)
        if fault.start_s or not fault.permanent:
            raise InputError(f"fault {words[0]}: it begins now and stands until it is restored; leave the times out")
        if words[0] in self._standing:
            self._mend(words[0])
        begin_fault(self.network, fault)
        self._standing[words[0]] = fault
        print(f"{words[0]} {fault.words}{' one way' if fault.direction == 'forward' else ''}")

    def _mend(self, name: str) -> None:
        fault = self._standing.pop(name, None)
        if fault is None:
            standing = ", ".join(self._standing) or "none"
            raise InputError(f"restore {name}: no fault stands on it (standing: {standing})")
        end_fault(self.network, fault)
        print(f"{name} restored")

    def _link(self, text: str) -> Any:
        return parse_link(text, self.network.wiring.network)

    def _execute(self, action: Any) -> None:
        try:
            action()
        except TestbedError as error:
            self._complain(str(error))

    def _complain(self, text: str) -> None:
        self.wrong += 1
        print(f"testbed: {text}", file=sys.stderr, flush=True)


def _text(link: tuple[str, str, int]) -> str:
    return f"{link[0]}->{link[1]}" + (f"#{link[2]}" if link[2] else "")
