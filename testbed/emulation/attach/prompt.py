"""Mininet's prompt over a running network, of this process or another, on one machine or several.

It sends requests through the network's control socket. Lines from a pipe are executed like typed
ones. A wrong line causes one line on stderr and is counted for the exit code; the network continues
to run.
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
from collections.abc import Callable, Iterator, Sequence
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
from topologies import Json, LinkId, TopologyError, label_of

# Length in bytes of a typed line that a terminal passes on completely (N_TTY of Linux: 4095).
_MAX_LINE_BYTES = 4000

# Depth of files that read files.
_MAX_DEPTH = 10

_LOOK_MS = 100

# Commands after which the line is Python or shell code, and is not split into words here.
_UNPARSED = ("py", "px", "sh", "time", "noecho", "node")

# Position of the local flags in the attributes of a terminal (termios).
_LOCAL_FLAGS = 3


def give_prompt(name: str, words_at: WordsAt | None = None, *, sign: str = "mininet> ") -> int:
    """Run a prompt over a network until the user leaves it.

    Args:
        name: Name of the network.
        words_at: Returns the command line that runs a program in a node; by default the program is
            run through the network's control socket.
        sign: Text of the prompt.

    Returns:
        The exit code: 2 if lines came from a pipe and one of them was wrong, and otherwise 0.

    Raises:
        SessionClosedError: The network ends before the prompt.
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
    """The prompt.

    Args:
        name: Name of the network.
        words_at: Returns the command line that runs a program in a node; None to run it through the
            network's control socket.
        sign: Text of the prompt.
        stack: Ends what the prompt has started.

    Attributes:
        wrong: Number of commands that could not be carried out.
        gone: The network has ended.
        typed: Lines are typed at a terminal.
        mn: The network as Mininet describes it.
    """

    def __init__(
        self, name: str, words_at: WordsAt | None, sign: str, stack: contextlib.ExitStack
    ) -> None:
        self.name = name
        self.wrong = 0
        self.gone = False
        self._stack = stack
        self._depth = 0
        self.typed = sys.stdin is not None and sys.stdin.isatty()
        self._described = send_request(name, {"do": "describe", "cables": True}).header
        self._network = prompt_words.described_network(self._described)
        self.mn = described_mininet(
            self._described, words_at or partial(program_argv, name), self._set_cables
        )
        for node in self.mn.values():
            node.typed = self.typed
            stack.callback(node.terminate)
        # Mininet's messages are printed here as long as the prompt runs.
        stack.callback(setattr, lg, "handlers", lg.handlers)
        lg.handlers = [MininetLog(self.complain)]
        # CLI's own constructor would run the prompt.
        super(CLI, self).__init__(stdin=sys.stdin)
        self.inputFile = None
        self.inPoller = select.poll()
        # Python's own exit() would close the input.
        self.locals = {"net": self.mn, "exit": sys.exit, "quit": sys.exit}
        self.prompt = sign if self.typed else ""
        self.use_rawinput = self.typed
        self._addresses = {}
        for host in self._described["hosts"]:
            self._addresses[printable(host["name"])] = host["ip"]
            self._addresses[host["name"]] = host["ip"]

    def run(self) -> None:
        """Execute lines until the input ends.

        At a terminal, Ctrl-C ends the running command. If lines come from a pipe, it ends the
        prompt.
        """
        hidden = sorted(word for word in self.mn if self._is_command(word))
        if hidden:
            print(
                f"also commands of this prompt: {', '.join(hidden)}; "
                "node NAME COMMAND runs one there",
                flush=True,
            )
        if self.typed:
            self.inPoller.register(sys.stdin)
            self.initReadline()
            super().run()
        elif sys.stdin is not None:
            sys.stdin.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
            # An input that is closed has no lines.
            with contextlib.suppress(OSError, ValueError):
                self.cmdloop()

    @classmethod
    def initReadline(cls) -> None:  # noqa: N802 - Mininet's name
        """Set up line editing, but no history file, because a run leaves no files behind."""
        import readline

        readline.set_history_length(1000)

    def isatty(self) -> bool:
        """Return whether lines are typed at a terminal."""
        return self.typed

    def precmd(self, line: str) -> str:
        """Return the line as it is.

        Mininet would cut a comment off, but a # may belong to the name of a link. Comments are
        removed when a command splits the line into words.
        """
        return line

    def onecmd(self, line: str) -> bool:
        """Execute a line; an error ends the command, not the prompt.

        Returns:
            Whether the prompt shall end.
        """
        try:
            return self._execute(line)
        except KeyboardInterrupt:
            if not self.typed or self._has_gone():
                raise
            print()
        except BrokenPipeError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001
            # Python code of the user, or of Mininet, may raise anything.
            self.gone = self._has_gone()
            if not self.gone:
                self._report(line, error)
        return self.gone

    def _report(self, line: str, error: BaseException) -> None:
        """Print the error of a line."""
        first = line.split()[0]
        if isinstance(error, TestbedError | TopologyError):
            text = str(error)
            if self._is_command(first) and first in self.mn:
                # The user may have meant the node.
                text += f"; node {first} COMMAND runs one in the node"
            self.complain(text)
        else:
            text = traceback.format_exception_only(error)[-1]
            self.complain(f"{first}: {text}")

    def _execute(self, line: str) -> bool:
        """Execute a line, and return whether the prompt shall end."""
        if not line.strip() or line.lstrip().startswith("#"):
            return False
        if "\0" in line:
            raise InputError("a line with a zero byte, which no program takes")
        first, remaining = prompt_words.first_word(line)
        if first[:1] in "!?":
            remaining = f"{first[1:]} {remaining}".strip()
            first = "sh" if first[:1] == "!" else "help"
        if not self._is_command(first):
            self._run_at(shlex.split(first)[0], remaining)
            return False
        if first.startswith("pingpair") and len(self.mn.hosts) < 2:
            raise InputError(f"{first}: needs two hosts, and this network has {len(self.mn.hosts)}")
        arguments = remaining if first in _UNPARSED else prompt_words.Words(remaining)
        return bool(getattr(self, f"do_{first}")(arguments))

    def _near(self, word: str) -> str:
        """Return a hint to the command or node with the most similar name, or an empty string."""
        commands = [name.removeprefix("do_") for name in dir(self) if name.startswith("do_")]
        similar = difflib.get_close_matches(word[:80], [*commands, *self.mn], n=1)
        return f"did you mean {similar[0]}? " if similar else ""

    def _is_command(self, word: str) -> bool:
        return word.isidentifier() and hasattr(self, f"do_{word}")

    def _request(self, do: str, **fields: object) -> Json:
        """Send a request to the network, and return the answer."""
        return send_request(self.name, {"do": do, **fields}).header

    def _has_gone(self) -> bool:
        """Return whether the network has ended."""
        try:
            self._request("faults")
        except TestbedError:
            return True
        return False

    def _run_at(self, name: str, command: str) -> None:
        """Run a command in a node.

        Raises:
            InputError: There is no such node, or no such command.
            SessionClosedError: The network has ended, and the command with it.
        """
        if name not in self.mn:
            raise InputError(
                f"unknown command {name[:80]!r}; {self._near(name)}"
                "help lists the commands, nodes the nodes"
            )
        if not command:
            raise InputError(f"{name}: say what to run there: NODE COMMAND")
        command = prompt_words.with_addresses(command, self._addresses)
        if self.typed and len(command.encode()) > _MAX_LINE_BYTES:
            raise InputError(
                f"{name}: a line of more than {_MAX_LINE_BYTES} bytes; "
                "put it into a file, and run that"
            )
        # Check the syntax first: a node's shell would print its error like output of a command.
        check = subprocess.run(
            ["bash", "-n"], input=command, capture_output=True, text=True, check=False
        )
        if check.returncode != 0:
            reason = check.stderr.splitlines()[0].removeprefix("bash: ")
            raise InputError(f"{name}: the shell does not understand the command ({reason})")
        node = self.mn[name]
        node.sendCmd(command)
        self.waitForNode(node)
        # Any request shows whether the network still runs.
        self._request("faults")

    def waitForNode(self, node: Node) -> None:  # noqa: N802 - Mininet's name
        """Print the output of a node's command until it ends, and pass typed keys to it.

        Lines from a pipe are not passed to it, because they are lines of the prompt.
        """
        keys = single_keys() if self.typed else contextlib.nullcontext()
        # ``_pass_keys`` has already waited.
        timeout_ms = 0 if self.typed else None
        with output_of_programs(), keys:
            while node.waiting:
                try:
                    if self.typed:
                        self._pass_keys(node)
                    sys.stdout.write(node.monitor(timeout_ms))
                    sys.stdout.flush()
                except KeyboardInterrupt:
                    if not self.typed:
                        raise
                    node.sendInt()

    def _pass_keys(self, node: Node) -> None:
        """Wait for keys or output, and pass keys to the node's command."""
        poller = select.poll()
        for file in (sys.stdin, node.stdout):
            poller.register(file, select.POLLIN)
        if any(file == sys.stdin.fileno() for file, _ in poller.poll(_LOOK_MS)):
            node.type_keys(os.read(sys.stdin.fileno(), 1024))

    def do_EOF(self, _line: str) -> bool:  # noqa: N802 - Mininet's name
        """End the prompt at the end of the input."""
        if self.typed:
            print()
        return True

    def do_help(self, line: str) -> None:
        """List the commands, or describe one (help COMMAND)."""
        if line and not self._is_command(line.split()[0]):
            raise InputError(f"no command {line.split()[0]!r}; help lists them")
        super().do_help(line)

    def do_node(self, line: str) -> None:
        """Run a command in a node that is called like a command here (node NAME COMMAND)."""
        if not line:
            raise InputError("node: give a node and a command")
        name, command = prompt_words.first_word(line)
        self._run_at(shlex.split(name)[0], command)

    def default(self, line: str) -> None:
        """Run a command in a node; Mininet's ``noecho`` calls this."""
        self.do_node(line)

    def do_sh(self, line: str) -> None:
        """Run a command of this machine's shell (sh COMMAND)."""
        # Lines from a pipe are lines of the prompt, and not input of the command.
        stdin = None if self.typed else subprocess.DEVNULL
        subprocess.run(line, shell=True, stdin=stdin, check=False)

    def do_py(self, line: str) -> None:
        """Evaluate a Python expression (py h1.cmd("ls")); nodes are variables, and net["NAME"]."""
        value = eval(line, globals(), self.getLocals())
        if value:
            text = value if isinstance(value, str) else repr(value)
            print(text)

    def do_px(self, line: str) -> None:
        """Execute a Python statement (px print(h1)); nodes are variables, and net["NAME"]."""
        exec(line, globals(), self.getLocals())

    def do_source(self, line: str) -> bool:
        """Read commands from a file (source FILE)."""
        (path,) = self._words(line, 1, "source: give a file")
        if self._depth == _MAX_DEPTH:
            raise InputError(f"source {path}: files that read files, {_MAX_DEPTH} deep")
        try:
            lines = Path(path).read_text(errors="backslashreplace").splitlines()
        except OSError as error:
            raise InputError(f"source {path}: {error.strerror}") from None
        self._depth += 1
        try:
            return any(self.onecmd(source_line) for source_line in lines)
        finally:
            self._depth -= 1

    def do_x(self, line: str) -> None:
        """Run a graphical program in a node (x NODE COMMAND)."""
        arguments = line.split()
        if not arguments or arguments[0] not in self.mn:
            raise InputError("x: give a node and a command; nodes lists the nodes")
        super().do_x(line)

    def do_pingall(self, line: str) -> None:
        """Ping between all hosts, and wait this long for each answer (pingall [SECONDS])."""
        if line and not re.fullmatch(r"[0-9.]+", line.strip()):
            raise InputError(f"pingall {line}: give seconds, or nothing")
        super().do_pingall(line)

    def do_links(self, _line: str) -> None:
        """List the cables, and which of them are down."""
        links_down = [tuple(link) for link in self._request("links down")["links"]]
        cables_down = {frozenset(link) for link in links_down}
        for cable in self._described["cables"]:
            a, _, interface_a = cable["a"]
            b, _, interface_b = cable["b"]
            is_down = cable["link"] and frozenset(cable["link"]) in cables_down
            state = "down down" if is_down else "OK OK"
            names = ""
            if not (interface_a.startswith(f"{a}-eth") and interface_b.startswith(f"{b}-eth")):
                # The interfaces do not show the names of the nodes.
                names = printable(f" {a} - {b}")
            print(f"{interface_a}<->{interface_b} ({state}){names}")

    def do_switch(self, line: str) -> None:
        """Cut or restore every cable of a switch (switch NAME stop|start)."""
        name, action = self._words(line, 2, "switch: give a switch, then stop or start")
        switches = {switch["name"] for switch in self._described["switches"]}
        if action not in ("start", "stop") or name not in switches:
            raise InputError(f"switch {line}: give a switch, then stop or start")
        # A dictionary, because parallel cables are cut together.
        pairs: dict[tuple[str, str], None] = {}
        for cable in self._described["cables"]:
            a = cable["a"][0]
            b = cable["b"][0]
            if cable["link"] and name in (a, b):
                pairs[a, b] = None
        for a, b in pairs:
            self._set_cables(a, b, action == "start")

    def do_fault(self, line: str) -> None:
        """Break or impair a link, or list the active faults.

        fault LINK [down | blackhole | loss FRACTION | IMPAIRMENT ...] [one-way]

        LINK is a->b. down: no carrier (one-way: a blackhole of that direction).
        IMPAIRMENT is loss:F, ge:p=P,r=R, delay:S,jitter=J, jitter:J, reorder:F, duplicate:F or
        trace:FILE. Without arguments: list the active faults.
        """
        link, manner = prompt_words.first_link(str(line), self._network, prompt_words.is_manner)
        if link:
            fault = self._request("fail", link=link, manner=manner)["fault"]
            print(printable(fault))
        else:
            for text in self._request("faults")["standing"]:
                print(printable(text))

    def do_config(self, line: str) -> None:
        """Set a link's capacity, delay or loss, or list the links that were changed.

        config LINK bw=5 delay=10ms loss=2 [one-way]
        config LINK reset

        As Mininet: bw in Mbit/s, loss in per cent; both directions of the cable, unless one-way.
        reset: as the network says. Without arguments: list the links that were changed.
        """
        link, words = prompt_words.first_link(str(line), self._network, prompt_words.is_settings)
        if link:
            all_settings = asdict(parse_settings(words))
            settings = {key: value for key, value in all_settings.items() if value is not None}
            now = self._request("configure", link=link, settings=settings)["now"]
            print(printable(f"{link} {now or 'as the network says'}"))
        else:
            for name, now in self._request("configure")["links"].items():
                print(printable(f"{name} {now}"))

    def do_restore(self, line: str) -> None:
        """End faults (restore LINK ..., or restore all)."""
        names = prompt_words.links_of_line(str(line), self._network)
        if not names:
            raise InputError("restore: give a link, a->b, or all")
        if names == ["all"]:
            names = self._request("faults")["links"]
        for name in names:
            self._request("restore", link=name)
            print(printable(f"{name} restored"))

    def do_loads(self, _line: str) -> None:
        """List packets, bytes and dropped packets of each link that has carried any."""
        for source, target, key, packets, size, drops in self._request("counters")["links"]:
            if packets or drops:
                name = printable(label_of((source, target, key)))
                print(f"{name:20} {packets:10} packets {size:12} bytes {drops:8} dropped")

    def do_capture(self, line: str) -> None:
        """Record what arrives over a link until the prompt ends (capture LINK FILE)."""
        link, files = prompt_words.first_link(str(line), self._network, _is_one_file)
        if len(files) != 1:
            raise InputError("capture: give a link, a->b, and a file")
        self._stack.enter_context(Recording(self.name, link, Path(files[0])))
        print(printable(f"recording {link} to {files[0]}"))

    def do_names(self, _line: str) -> None:
        """List hosts and switches with their devices, addresses and machines.

        Interfaces are called after the devices.
        """
        for host in self._described["hosts"]:
            text = f"{host['name']:12} {host['device']:12} {host['ip']:15} {_machine(host)} "
            if host["outside"]:
                text += f"for the switch {host['node']}"
            print(printable(text.rstrip()))
        for switch in self._described["switches"]:
            text = f"{switch['name']:12} {switch['device']:12} datapath id {switch['dpid']} "
            text += _machine(switch)
            print(printable(text.rstrip()))

    def _set_cables(self, a: str, b: str, up: bool) -> None:
        self._request("set cables", a=a, b=b, up=up)

    def _words(self, line: str, count: int, message: str) -> list[str]:
        """Return the words of a line.

        Args:
            line: The line.
            count: The required number of words.
            message: The error if there are more or fewer.

        Raises:
            InputError: There are more or fewer.
        """
        words = line.split()
        if len(words) != count:
            raise InputError(message)
        return words

    def complain(self, text: str) -> None:
        """Print one line about a wrong command, and count it."""
        self.wrong += 1
        sys.stdout.flush()
        one_line = re.sub(r"\s*\n\s*", "; ", text.strip())
        print(f"testbed: {one_line}", file=sys.stderr, flush=True)


class MininetLog(logging.Handler):
    """Prints Mininet's messages, and reports its errors.

    Args:
        complain: Reports an error.
    """

    def __init__(self, complain: Callable[[str], object]) -> None:
        super().__init__()
        self._complain = complain

    def emit(self, record: logging.LogRecord) -> None:
        """Print a message without adding a line end, like Mininet's own handler."""
        if record.levelno >= logging.ERROR:
            self._complain(record.getMessage())
        else:
            sys.stdout.write(record.getMessage())
            sys.stdout.flush()


@contextlib.contextmanager
def single_keys() -> Iterator[None]:
    """Let the terminal pass on each key as it is typed, and not whole lines, during the block."""
    previous = termios.tcgetattr(sys.stdin)
    attributes = termios.tcgetattr(sys.stdin)
    attributes[_LOCAL_FLAGS] &= ~termios.ICANON
    termios.tcsetattr(sys.stdin, termios.TCSANOW, attributes)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, previous)


def _is_one_file(_: LinkId, files: Sequence[str]) -> bool:
    return len(files) == 1


def _machine(node: Json) -> str:
    """Return the name of the machine on which a node is, if there are several."""
    return str(node.get("machine", ""))
