"""Mininet's prompt over a network that some process holds up, this one or another, on one machine or several; it asks
by the door.

Lines from a pipe are executed like typed ones. A wrong line is one line on stderr and counted for the exit code; the
network lives on.
"""

import contextlib
import difflib
import logging
import os
import re
import select
import shlex
import subprocess
import sys
import termios
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

from mininet.cli import CLI
from mininet.log import lg
from mininet.node import Node

from testbed.emulation.attach import prompt_words
from testbed.emulation.attach.client import Recording, program_argv, send_request
from testbed.emulation.network.mininet_network.wired import WordsAt, described_mininet
from testbed.errors import InputError, SessionClosedError, TestbedError
from testbed.faults.link_settings import parse_settings
from testbed.model.naming.printable import printable
from testbed.report.streams import output_of_programs
from topologies import Json, TopologyError, label_of

_LONGEST = 4000
"""Bytes of a typed line that a terminal passes on whole (N_TTY of Linux: 4095)."""
_DEEPEST, _LOOK_MS = 10, 100


def give_prompt(name: str, words_at: WordsAt | None = None, *, sign: str = "mininet> ") -> int:
    """A prompt on the network of that name until its user leaves it; exit code 2 where lines came from a pipe and one
    was wrong.

    ``words_at``: how programs begin in its hosts (default: by the network's door). SessionClosedError where the network
    ends before.
    """
    with contextlib.ExitStack() as stack:
        prompt = Prompt(name, words_at, sign, stack)
        prompt.run()
    if prompt.gone:
        raise SessionClosedError(
            f"the network {name!r} has gone; testbed attach lists those that are up"
        )
    return 2 if prompt.wrong and not prompt.typed else 0


class Prompt(CLI):  # type: ignore[misc]
    """The prompt; ``wrong`` counts commands that could not be carried out, ``stack`` ends what it began."""

    def __init__(
        self, name: str, words_at: WordsAt | None, sign: str, stack: contextlib.ExitStack
    ) -> None:
        self.name, self.wrong, self.gone, self._stack, self._depth = name, 0, False, stack, 0
        self.typed = sys.stdin is not None and sys.stdin.isatty()
        self._described = send_request(name, {"do": "describe", "cables": True}).header
        self._network = prompt_words.described_network(self._described)
        self.mn = described_mininet(
            self._described, words_at or partial(program_argv, name), self._set_cables
        )
        for node in self.mn.values():
            node.typed = self.typed
            stack.callback(node.terminate)
        handlers, lg.handlers = lg.handlers, [Said(self.complain)]
        stack.callback(setattr, lg, "handlers", handlers)
        super(CLI, self).__init__(stdin=sys.stdin)
        self.inputFile, self.inPoller = None, select.poll()
        # Python's own exit() would close the input.
        self.locals = {"net": self.mn, "exit": sys.exit, "quit": sys.exit}
        self.prompt, self.use_rawinput = (sign, True) if self.typed else ("", False)
        self._addresses = {
            name: host["ip"]
            for host in self._described["hosts"]
            for name in (printable(host["name"]), host["name"])
        }

    def run(self) -> None:
        """Ctrl-C ends the running command at a terminal, and everything where commands come from a pipe."""
        hidden = sorted(word for word in self.mn if self._is_command(word))
        if hidden:
            print(
                f"also commands of this prompt: {', '.join(hidden)}; node NAME COMMAND runs one there",
                flush=True,
            )
        if self.typed:
            self.inPoller.register(sys.stdin)
            self.initReadline()
            super().run()
        elif sys.stdin is not None:
            sys.stdin.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
            with contextlib.suppress(OSError, ValueError):  # an input that is closed has no lines
                self.cmdloop()

    @classmethod
    def initReadline(cls) -> None:  # noqa: N802 - Mininet's name
        """Line editing, but no history file: a run leaves nothing behind."""
        import readline

        readline.set_history_length(1000)

    def isatty(self) -> bool:
        """Whether lines are typed at a terminal."""
        return self.typed

    def precmd(self, line: str) -> str:
        """As it is: a # may belong to a link's name, a comment is for whoever takes the words apart."""
        return line

    def onecmd(self, line: str) -> bool:
        """Whatever is wrong ends the command, not the prompt."""
        try:
            return self._obey(line)
        except KeyboardInterrupt:
            if not self.typed or self._has_gone():
                raise
            print()
        except BrokenPipeError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - Python of the user's own, or what Mininet did not expect
            self.gone = self._has_gone()
            if not self.gone:
                self._say_what_is_wrong(line, error)
        return self.gone

    def _say_what_is_wrong(self, line: str, error: BaseException) -> None:
        if isinstance(error, TestbedError | TopologyError):
            first = line.split()[0]
            hidden = self._is_command(first) and first in self.mn
            self.complain(
                f"{error}" + (f"; node {first} COMMAND runs one in the node" if hidden else "")
            )
        else:
            said = traceback.format_exception_only(error)[-1]
            self.complain(f"{line.split()[0]}: {said}")

    def _obey(self, line: str) -> bool:
        if not line.strip() or line.lstrip().startswith("#"):
            return False
        if "\0" in line:
            raise InputError("a line with a zero byte, which no program takes")
        first, rest = prompt_words.first_word(line)
        if first[:1] in "!?":
            first, rest = {"!": "sh", "?": "help"}[first[:1]], f"{first[1:]} {rest}".strip()
        if not self._is_command(first):
            self._run_at(shlex.split(first)[0], rest)
            return False
        if first.startswith("pingpair") and len(self.mn.hosts) < 2:
            raise InputError(f"{first}: needs two hosts, and this network has {len(self.mn.hosts)}")
        # What Python or a shell reads goes to it as it is.
        taken = (
            rest
            if first in ("py", "px", "sh", "time", "noecho", "node")
            else prompt_words.Words(rest)
        )
        return bool(getattr(self, f"do_{first}")(taken))

    def _near(self, word: str) -> str:
        """Return a hint at the command or node whose name is nearest, or an empty text."""
        commands = [name.removeprefix("do_") for name in dir(self) if name.startswith("do_")]
        near = difflib.get_close_matches(word[:80], [*commands, *self.mn], n=1)
        return f"did you mean {near[0]}? " if near else ""

    def _is_command(self, word: str) -> bool:
        return word.isidentifier() and hasattr(self, f"do_{word}")

    def _ask(self, do: str, **given: object) -> Json:
        """The network's answer."""
        return send_request(self.name, {"do": do, **given}).header

    def _has_gone(self) -> bool:
        try:
            self._ask("faults")
        except TestbedError:
            return True
        return False

    def _run_at(self, name: str, command: str) -> None:
        if name not in self.mn:
            raise InputError(
                f"unknown command {name[:80]!r}; {self._near(name)}help lists the commands, nodes the nodes"
            )
        if not command:
            raise InputError(f"{name}: say what to run there: NODE COMMAND")
        command = prompt_words.with_addresses(command, self._addresses)
        if self.typed and len(command.encode()) > _LONGEST:
            raise InputError(
                f"{name}: a line of more than {_LONGEST} bytes; put it into a file, and run that"
            )
        parsed = subprocess.run(
            ["bash", "-n"], input=command, capture_output=True, text=True, check=False
        )
        if parsed.returncode != 0:
            why = parsed.stderr.splitlines()[0].removeprefix("bash: ")
            raise InputError(f"{name}: the shell does not understand the command ({why})")
        node = self.mn[name]
        node.sendCmd(command)
        self.waitForNode(node)
        self._ask(
            "faults"
        )  # SessionClosedError where the network, and the command with it, has gone

    def waitForNode(self, node: Node) -> None:  # noqa: N802 - Mininet's name
        """Show what the node's command prints until it ends, and give it what is typed; what waits in a pipe is the
        prompt's."""
        with output_of_programs(), single_keys() if self.typed else contextlib.nullcontext():
            while node.waiting:
                try:
                    if self.typed:
                        self._pass_keys(node)
                    sys.stdout.write(node.monitor(None if not self.typed else 0))
                    sys.stdout.flush()
                except KeyboardInterrupt:
                    if not self.typed:
                        raise
                    node.sendInt()

    def _pass_keys(self, node: Node) -> None:
        poller = select.poll()
        for file in (sys.stdin, node.stdout):
            poller.register(file, select.POLLIN)
        if any(file == sys.stdin.fileno() for file, _ in poller.poll(_LOOK_MS)):
            node.type_keys(os.read(sys.stdin.fileno(), 1024))

    def do_EOF(self, _line: str) -> bool:  # noqa: N802 - Mininet's name
        """The end of the input ends the prompt."""
        if self.typed:
            print()
        return True

    def do_help(self, line: str) -> None:
        """List the commands, or say what one does: help COMMAND"""
        if line and not self._is_command(line.split()[0]):
            raise InputError(f"no command {line.split()[0]!r}; help lists them")
        super().do_help(line)

    def do_node(self, line: str) -> None:
        """Run a command in a node whose name is that of a command here: node NAME COMMAND"""
        if not line:
            raise InputError("node: give a node and a command")
        name, rest = prompt_words.first_word(line)
        self._run_at(shlex.split(name)[0], rest)

    def default(self, line: str) -> None:
        """Of ``noecho``: a node and its command."""
        self.do_node(line)

    def do_sh(self, line: str) -> None:
        """Run a command of this machine's shell: sh COMMAND"""
        subprocess.run(
            line, shell=True, stdin=None if self.typed else subprocess.DEVNULL, check=False
        )

    def do_py(self, line: str) -> None:
        """Evaluate a Python expression; nodes are variables, and net["NAME"]: py h1.cmd("ls")"""
        found = eval(line, globals(), self.getLocals())
        if found:
            print(found if isinstance(found, str) else repr(found))

    def do_px(self, line: str) -> None:
        """Execute a Python statement; nodes are variables, and net["NAME"]: px print(h1.cmd("ls"))"""
        exec(line, globals(), self.getLocals())

    def do_source(self, line: str) -> bool:
        """Read commands from a file: source FILE"""
        (path,) = self._words(line, 1, "source: give a file")
        if self._depth == _DEEPEST:
            raise InputError(f"source {path}: files that read files, {_DEEPEST} deep")
        try:
            lines = Path(path).read_text(errors="backslashreplace").splitlines()
        except OSError as error:
            raise InputError(f"source {path}: {error.strerror}") from None
        self._depth += 1
        try:
            return any(self.onecmd(one) for one in lines)
        finally:
            self._depth -= 1

    def do_x(self, line: str) -> None:
        """Run a graphical program in a node: x NODE COMMAND"""
        words = line.split()
        if not words or words[0] not in self.mn:
            raise InputError("x: give a node and a command; nodes lists the nodes")
        super().do_x(line)

    def do_pingall(self, line: str) -> None:
        """Ping between all hosts, each answer waited for so long: pingall [SECONDS]"""
        if line and not re.fullmatch(r"[0-9.]+", line.strip()):
            raise InputError(f"pingall {line}: give seconds, or nothing")
        super().do_pingall(line)

    def do_links(self, _line: str) -> None:
        """The cables, and which of them are down."""
        down = {frozenset(link) for link in map(tuple, self._ask("links down")["links"])}
        for cable in self._described["cables"]:
            (a, _, near), (b, _, far) = cable["a"], cable["b"]
            state = "down down" if cable["link"] and frozenset(cable["link"]) in down else "OK OK"
            names = (
                ""
                if near.startswith(f"{a}-eth") and far.startswith(f"{b}-eth")
                else printable(f" {a} - {b}")
            )
            print(f"{near}<->{far} ({state}){names}")

    def do_switch(self, line: str) -> None:
        """Cut every cable of a switch, or bring them back: switch NAME stop|start"""
        name, what = self._words(line, 2, "switch: give a switch, then stop or start")
        cables = [
            (c["a"][0], c["b"][0])
            for c in self._described["cables"]
            if c["link"] and name in (c["a"][0], c["b"][0])
        ]
        if what not in ("start", "stop") or name not in {
            s["name"] for s in self._described["switches"]
        }:
            raise InputError(f"switch {line}: give a switch, then stop or start")
        for a, b in dict.fromkeys(cables):
            self._set_cables(a, b, what == "start")

    def do_fault(self, line: str) -> None:
        """Break or impair a link: fault LINK [down | blackhole | loss FRACTION | IMPAIRMENT ...] [one-way]

        LINK is a->b. down: no carrier (one-way: a blackhole of that direction).
        IMPAIRMENT is loss:F, ge:p=P,r=R, delay:S,jitter=J, jitter:J, reorder:F, duplicate:F or trace:FILE.
        Without arguments: list the active faults."""
        link, manner = prompt_words.first_link(str(line), self._network, prompt_words.is_manner)
        if link:
            broken = self._ask("fail", link=link, manner=manner)["fault"]
            print(printable(broken))
        else:
            for text in self._ask("faults")["standing"]:
                print(printable(text))

    def do_config(self, line: str) -> None:
        """Set a link's capacity, delay or loss while the network is up: config LINK bw=5 delay=10ms loss=2 [one-way]

        As Mininet: bw in Mbit/s, loss in per cent; both directions of the cable, unless one-way.
        config LINK reset: as the network says. Without arguments: list the links that are not."""
        link, words = prompt_words.first_link(str(line), self._network, prompt_words.is_settings)
        if link:
            settings = {
                key: value
                for key, value in asdict(parse_settings(words)).items()
                if value is not None
            }
            now = self._ask("configure", link=link, settings=settings)["now"]
            print(printable(f"{link} {now or 'as the network says'}"))
        else:
            for name, now in self._ask("configure")["links"].items():
                print(printable(f"{name} {now}"))

    def do_restore(self, line: str) -> None:
        """End faults: restore LINK ... | restore all"""
        names = prompt_words.links_of_line(str(line), self._network)
        if not names:
            raise InputError("restore: give a link, a->b, or all")
        for name in self._ask("faults")["links"] if names == ["all"] else names:
            self._ask("restore", link=name)
            print(printable(f"{name} restored"))

    def do_loads(self, _line: str) -> None:
        """What every link has carried: packets, bytes, packets dropped (links that carried nothing are left out)."""
        for *link, packets, size, drops in self._ask("counters")["links"]:
            if packets or drops:
                name = printable(label_of((link[0], link[1], link[2])))
                print(f"{name:20} {packets:10} packets {size:12} bytes {drops:8} dropped")

    def do_capture(self, line: str) -> None:
        """Record what arrives over a link until the prompt ends: capture LINK FILE"""
        link, files = prompt_words.first_link(
            str(line), self._network, lambda _, words: len(words) == 1
        )
        if len(files) != 1:
            raise InputError("capture: give a link, a->b, and a file")
        self._stack.enter_context(Recording(self.name, link, Path(files[0])))
        print(printable(f"recording {link} to {files[0]}"))

    def do_names(self, _line: str) -> None:
        """Hosts and switches: names, devices (which interfaces are called after), addresses, machines."""
        for host in self._described["hosts"]:
            more = f"for the switch {host['node']}" if host["outside"] else ""
            print(
                printable(
                    f"{host['name']:12} {host['device']:12} {host['ip']:15} {_machine(host)} {more}".rstrip()
                )
            )
        for switch in self._described["switches"]:
            about = f"datapath id {switch['dpid']} {_machine(switch)}"
            print(printable(f"{switch['name']:12} {switch['device']:12} {about}".rstrip()))

    def _set_cables(self, a: str, b: str, up: bool) -> None:
        self._ask("set cables", a=a, b=b, up=up)

    def _words(self, line: str, count: int, lack: str) -> list[str]:
        words = line.split()
        if len(words) != count:
            raise InputError(lack)
        return words

    def complain(self, text: str) -> None:
        """One line, and one wrong command more."""
        self.wrong += 1
        sys.stdout.flush()
        print("testbed: " + re.sub(r"\s*\n\s*", "; ", text.strip()), file=sys.stderr, flush=True)


class Said(logging.Handler):
    """What Mininet says goes to the output; what it calls an error is a complaint."""

    def __init__(self, complain: Callable[[str], object]) -> None:
        super().__init__()
        self._complain = complain

    def emit(self, record: logging.LogRecord) -> None:
        """Without a line's end of its own, as Mininet's handler."""
        if record.levelno >= logging.ERROR:
            self._complain(record.getMessage())
        else:
            sys.stdout.write(record.getMessage())
            sys.stdout.flush()


@contextlib.contextmanager
def single_keys() -> Iterator[None]:
    """Meanwhile the terminal passes on each key as it is typed."""
    before = termios.tcgetattr(sys.stdin)
    keys = termios.tcgetattr(sys.stdin)
    keys[3] &= ~termios.ICANON
    termios.tcsetattr(sys.stdin, termios.TCSANOW, keys)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


def _machine(described: Json) -> str:
    return str(described.get("machine", ""))
