"""``testbed attach [RUN]``: a prompt on a network that another process holds up; without a name, those that are up."""

from __future__ import annotations

import argparse
import cmd
import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed.errors import InputError, TestbedError


def add_parser(subparsers: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "attach",
        help="a prompt on a network that is up, or which ones are",
        description="A prompt on a network that testbed up, testbed run or a Python session holds up: programs in hosts, failures, "
        "counters, recordings. Leaving it leaves the network up. Without RUN: the names of the networks that are up.",
    )
    parser.add_argument("held", metavar="RUN", nargs="?", help="the network's name")
    parser.add_argument("--json", action="store_true", help="without RUN: print one JSON object on stdout")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit code 0; 2 where a line from a pipe could not be understood."""
    from testbed.emulation.sandbox.door import open_doors

    if args.held is None:
        names = open_doors()
        print(json.dumps({"networks": names}) if args.json else "\n".join(names) or "no network is up")
        return 0
    prompt = HeldPrompt(args.held)
    prompt.cmdloop()
    return 2 if prompt.wrong and not sys.stdin.isatty() else 0


class HeldPrompt(cmd.Cmd):
    """``HOST PROGRAM ...`` or one of the commands; ``wrong`` counts lines that could not be carried out."""

    use_rawinput = True

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.wrong = name, 0
        self._said = self._ask({"do": "describe"})
        hosts, switches = self._said["hosts"], self._said["switches"]
        self.prompt = f"{name}> " if sys.stdin.isatty() else ""
        if sys.stdin.isatty():
            self.intro = (
                f"{self._said['network']}: {len(hosts)} hosts, {len(switches)} switches; help lists the commands"
            )
        self._nodes = {one[key] for one in (*hosts, *switches) for key in ("node", "device")}

    def onecmd(self, line: str) -> bool:
        """Ctrl-C and errors end the command, not the prompt."""
        try:
            return bool(super().onecmd(line))
        except KeyboardInterrupt:
            print()
        except TestbedError as error:
            self._complain(str(error))
        return False

    def emptyline(self) -> bool:
        """Nothing is repeated."""
        return False

    def default(self, line: str) -> None:
        """A node's name and a program for it."""
        from testbed.emulation.held.caller import start_program

        if line == "EOF":
            return
        try:
            host, *words = shlex.split(line, comments=True)
        except ValueError as error:
            raise InputError(f"{line}: {error}") from None
        if host not in self._nodes:
            raise InputError(f"unknown command {host!r}; help lists the commands, names the nodes")
        if not words:
            raise InputError(f"{host}: say what to run there")
        program = start_program(self.name, host, words, stdin=None if sys.stdin.isatty() else subprocess.DEVNULL)
        while True:
            try:
                program.wait()
                return
            except KeyboardInterrupt:
                continue  # the program was told as well

    def do_EOF(self, _: str) -> bool:  # noqa: N802 - cmd's name
        """The end of the input ends the prompt."""
        return True

    def do_exit(self, _: str) -> bool:
        """Leave; the network stays up."""
        return True

    def do_names(self, _: str) -> None:
        """Hosts and switches: the network's names, the devices', addresses."""
        for host in self._said["hosts"]:
            more = " ".join(word for word in (host.get("machine", ""), "for the switch" * host["outside"]) if word)
            print(f"{host['node']:12} {host['device']:8} {host['ip']:15} {more}".rstrip())
        for switch in self._said["switches"]:
            where = switch.get("machine", "")
            print(f"{switch['node']:12} {switch['device']:8} datapath id {switch['dpid']} {where}".rstrip())

    def do_fault(self, line: str) -> None:
        """Break or impair a link: fault LINK [down | blackhole | loss FRACTION | IMPAIRMENT ...] [one-way]; alone: the faults that stand."""
        if line.strip():
            self._ask({"do": "fail", "fault": line.strip()})
        print("\n".join(self._ask({"do": "faults"})["standing"]))

    def do_restore(self, line: str) -> None:
        """Mend a link: restore LINK"""
        self._ask({"do": "restore", "link": line.strip()})
        print(f"{line.strip()} restored")

    def do_loads(self, _: str) -> None:
        """What every link has carried: packets, bytes, packets dropped."""
        for a, b, key, packets, size, drops in self._ask({"do": "counters"})["links"]:
            if packets or drops:
                name = f"{a}->{b}" + (f"#{key}" if key else "")
                print(f"{name:20} {packets:10} packets {size:12} bytes {drops:8} dropped")

    def do_capture(self, line: str) -> None:
        """Record a link until Ctrl-C or the next line: capture LINK FILE"""
        from testbed.emulation.held.caller import Recording

        words = line.split()
        if len(words) != 2:
            raise InputError("capture: give a link, a->b, and a file")
        with Recording(self.name, words[0], Path(words[1])):
            print(f"recording {words[0]} to {words[1]}; a line ends it", flush=True)
            sys.stdin.readline()

    def _ask(self, header: Mapping[str, Any]) -> dict[str, Any]:
        from testbed.emulation.held.caller import ask

        return ask(self.name, header).header

    def _complain(self, text: str) -> None:
        self.wrong += 1
        print(f"testbed: {text}", file=sys.stderr, flush=True)
