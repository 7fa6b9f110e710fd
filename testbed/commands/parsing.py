"""What every command keeps to: errors are one line on stderr and an exit code, and values are written one way
everywhere.

An error is never a traceback or half a page of usage. Numbers are those of ``testbed.model.options.kinds``.
"""

import argparse
import contextlib
import difflib
import errno
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from testbed.errors import DISK_FULL, CapabilityError, InputError
from testbed.model.naming.printable import printable
from testbed.model.options import kinds
from testbed.report.streams import complain

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from topologies.network import Network
from collections.abc import Mapping

from testbed.errors import TestbedError

#: Options that scripts of users may spell so, and the options that a command has for them.
SECOND_SPELLINGS: Mapping[str, Sequence[str]] = {
    "--book": ("--report-only",),
    "--deadlock": ("--deadlock-avoidance",),
    "--hours": ("--max-hours",),
    "--labels": ("--label-order",),
    "--links": ("--max-faults",),
    "--method": ("--scheduling", "--routing"),
    "--rate": ("--load",),
    "--rate-pps": ("--packet-rate",),
    "--seeds": ("--repetitions",),
}
INTERRUPTED = 130
"""The exit code after Ctrl-C, as of a shell: 128 and the number of SIGINT."""
# Errors of a write to a disk that is full, or broken.
_FULL = DISK_FULL | {errno.EFBIG, errno.EIO}
_NO_NAMES = frozenset({errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES})
"""How the look at a path ends that can name nothing, or nothing that the user may see."""
_OF_THE_MACHINE = ("/proc/", "/sys/", "/dev/")
"""What no user names: there it is an error that nobody foresaw."""


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line on stderr and exit code 2; numbers of any option are finite and
    bounded. ``trailing``: what takes the words behind "--", whole."""

    def __init__(
        self, prog: str | None = None, description: str | None = None, color: bool = False
    ) -> None:
        super().__init__(prog, description=description, allow_abbrev=False)
        self.color = False  # Python 3.14 paints help; here every Python writes the same
        self._words: list[str] = []
        self.example: str | None = None
        self.trailing: str | None = None
        # What to say of a word that is none of the choices, instead of the nearest choice.
        self.hints: Mapping[str, str] = {}
        self.register("type", int, kinds.any_whole)
        self.register("type", float, kinds.any_number)

    def parse_known_args(  # type: ignore[override]
        self, args: Iterable[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse does, but for ``--option=--``, which it takes for no value at all."""
        words = self._usual(list(sys.argv[1:] if args is None else args))
        self._words = words  # for messages
        for word in words[: words.index("--") if "--" in words else len(words)]:
            if word.startswith("--") and word.endswith("=--"):
                self.error(f"argument {word[:-3]}: expected a value after '='")
        for action in self._actions:
            _note_when_given(action)
        if self.trailing is None or "--" not in words:
            return super().parse_known_args(words, namespace)
        at = words.index("--")
        found, others = super().parse_known_args(words[:at], namespace)
        setattr(found, self.trailing, tuple(words[at + 1 :]))
        found.given = {**getattr(found, "given", {}), self.trailing: "--"}
        return found, others

    def _usual(self, words: list[str]) -> list[str]:
        """Return the words with each second spelling replaced by the option that this command has."""
        known = self._option_string_actions
        usual: list[str] = []
        for number, word in enumerate(words):
            if word == "--":
                return usual + words[number:]
            option, equals, value = word.partition("=")
            spellings = [] if option in known else SECOND_SPELLINGS.get(option, ())
            usual.append(next((one for one in spellings if one in known), option) + equals + value)
        return usual

    def parse_args(  # type: ignore[override]
        self, args: Iterable[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """As argparse does, but a word that nobody takes is the chosen command's mistake, which names its own help
        page."""
        found, others = self.parse_known_args(args, namespace)
        if others:
            self._chosen(found).refuse(others)
        return found

    def _get_value(self, action: argparse.Action, text: str) -> object:
        """As argparse does; a kind refuses a text by an error of the testbed, whose words are shown. An option without
        a text is a variable of a shell that is not set: a name of a file, and a word, have one letter at least."""
        if not text and action.option_strings and action.const != "":
            raise argparse.ArgumentError(action, "its value is empty")
        read = self._registry_get("type", action.type, action.type)
        try:
            value: object = read(text)
            return value
        except InputError as error:
            raise argparse.ArgumentError(action, str(error)) from None
        except (argparse.ArgumentTypeError, TypeError, ValueError):
            refused: object = super()._get_value(action, text)  # in its own words
            return refused

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """As argparse does, but a wrong word is told the nearest right one."""
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            from topologies.errors import (
                nearest,
            )  # the networks' package: what says --help does without

            hint = self.hints.get(str(value)) or nearest(
                str(value), choices, "choose from ", len(choices)
            )
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}; {hint}")

    def format_help(self) -> str:
        """Options by subject, and a command to begin with."""
        from testbed.commands.help_pages import help_text

        return help_text(self, self.example)

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        """As argparse does, which swallows that its help cannot be written."""
        if file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)

    def _chosen(self, found: argparse.Namespace) -> "OneLineParser":
        """The parser of the command (and of the command's command) that the words chose."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                chosen = action.choices.get(str(getattr(found, action.dest, "")))
                if isinstance(chosen, OneLineParser):
                    return chosen._chosen(found)
        return self

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """End with exit code 2: these words are none of this command's; the nearest option is named."""
        near = self._near(words[0])
        shown = printable(
            " ".join(words) if not words[0].startswith("-") else words[0].partition("=")[0]
        )
        what = "option" if words[0].startswith("-") else "argument"
        hint = f"; did you mean {near[0]}?" if near else ""
        if not near and self.trailing is not None and what == "argument":
            hint = f"; what is to be run stands after --, as in: ... -- {shown}"
        self.error(f"unknown {what} {shown[:80]}{hint}")

    def _near(self, word: str) -> list[str]:
        """Return the option that the word begins, misspells, or names as the library does; a list of at most one."""
        option, known = word.partition("=")[0], self._option_string_actions
        if not option.startswith("-"):
            return []
        argument = option.lstrip("-").replace("-", "_")
        for action in self._actions:
            if action.dest == argument and action.option_strings:
                return [action.option_strings[0]]
        begun = [one for one in known if len(option) > 3 and one.startswith(option)]
        return begun[:1] or difflib.get_close_matches(option, known, n=1)

    def error(self, message: str) -> NoReturn:
        """One line; where an option is missing, one that is none is named: it may be that option, misspelt."""
        if message.startswith("the following arguments are required"):
            own = self._words[: self._words.index("--") if "--" in self._words else None]
            strange = [
                w
                for w in own
                if self._near(w) and w.partition("=")[0] not in self._option_string_actions
            ]
            if strange:
                message = (
                    f"unknown option {strange[0][:80]}; did you mean {self._near(strange[0])[0]}?"
                )
        self.exit(2, f"{self.prog}: {' '.join(message.split())}; see {self.prog} --help\n")


class _Noted(argparse.Action):
    """Any action, which also notes in ``given`` of the namespace that it was on the command line, and how it was
    written."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        given = dict(getattr(namespace, "given", {}))
        if option_string and self.dest in given and not isinstance(self, argparse._AppendAction):
            raise argparse.ArgumentError(
                self, f"{given[self.dest]} stands there already; give it once"
            )
        super().__call__(parser, namespace, values, option_string)
        if option_string is not None or values not in (None, []):
            written = option_string or str(self.metavar or self.dest)
            namespace.given = given | {self.dest: written}
            rules = [(written, only) for only in getattr(self, "only", ())]
            namespace.ruled = [*getattr(namespace, "ruled", ()), *rules]


def _note_when_given(action: argparse.Action) -> None:
    """The same action, which notes; what ends the program or chooses a command needs no note."""
    kind = type(action)
    ends = (argparse._HelpAction, argparse._VersionAction, argparse._SubParsersAction)
    if not isinstance(action, (_Noted, *ends)):
        action.__class__ = type(kind.__name__, (_Noted, kind), {})


def reported(action: Callable[[], int]) -> int:
    """Run the action; an error that it raises becomes one line on stderr and its exit code (``unforeseen`` where it was
    not meant to)."""
    from testbed.extras import missing_extra

    try:
        code = action()
        sys.stdout.flush()
        return code
    except TestbedError as error:
        return _complain(str(error), error.exit_code)
    except ImportError as error:
        lack = missing_extra(error)
        return _unforeseen(error) if lack is None else _complain(str(lack), lack.exit_code)
    except OSError as error:
        path = str(error.filename)
        if error.errno in _NO_NAMES and not path.startswith(_OF_THE_MACHINE):
            return _complain(
                f"{path[:60]}: cannot be opened ({error.strerror}); give another place", 2
            )
        if error.errno not in _FULL:
            return _unforeseen(error)
        return _complain(_full_disk(error), CapabilityError.exit_code)
    except KeyboardInterrupt:
        _give_up_output()
        return _complain("interrupted", INTERRUPTED)
    except (SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - also what a library in another language panics with
        known = _code_of_networks(error)
        return _unforeseen(error) if known is None else _complain(str(error), known)


def _full_disk(error: OSError) -> str:
    import tempfile

    name = "a file" if error.filename is None else str(error.filename)
    return (
        f"{name}: cannot be written ({error.strerror}); free space there"
        f" (temporary files are in {tempfile.gettempdir()}, see TMPDIR)"
    )


def _code_of_networks(error: BaseException) -> int | None:
    """Of an error of a network or of a plug-in that was given, None of any other; the networks are loaded where
    something went wrong."""
    from topologies.errors import LackingError, TopologyError
    from topologies.registry import PluginError

    if isinstance(error, LackingError):
        return CapabilityError.exit_code
    return InputError.exit_code if isinstance(error, (TopologyError, PluginError)) else None


def _unforeseen(error: BaseException) -> int:
    from testbed.commands.unforeseen import describe

    return _complain(*describe(error))


def _give_up_output() -> None:
    """What is still to be written at the end of the program goes nowhere, and complains no more."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str, code: int) -> int:
    cut = [word for word in sys.argv[1:] if re.fullmatch("[^->][^>]*-", word) and word in message]
    complain(
        f"{message}; the shell takes > for a file: write the link as {cut[0]}..., or in quotes, as '{cut[0]}>...'"
        if cut
        else message
    )
    return code


def read_ends(args: argparse.Namespace, network: "Network") -> None:
    """Make ``--from`` and ``--to`` of ``args``, where they are given, nodes of the network; InputError where one is
    none."""
    from testbed.model.naming.names import read_node

    for end in ("source", "sink"):
        if (text := getattr(args, end)) is not None:
            setattr(args, end, read_node(text, network))


Subparsers: TypeAlias = "argparse._SubParsersAction[OneLineParser]"
