"""The parser and the error handling of all commands.

An error is one line on stderr and an exit code, never a traceback or a page of usage. All commands
accept numbers in the same form (``testbed.model.options.kinds``).
"""

import argparse
import contextlib
import difflib
import errno
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from testbed.errors import DISK_FULL, CapabilityError, InputError, TestbedError
from testbed.model.naming.printable import printable
from testbed.model.options import kinds
from testbed.report.streams import complain

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from topologies.network import Network

# Other spellings in scripts of users. Each stands for the first of these options that a command
# has.
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
# The exit code after Ctrl-C, as of a shell: 128 and the number of SIGINT.
INTERRUPTED = 130
# Errors of a write to a disk that is full, or broken.
_FULL = DISK_FULL | {errno.EFBIG, errno.EIO}
# Errors of a path that cannot exist, or that the user must not read.
_BAD_PATH = frozenset({errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES})
# Users do not name paths in these folders, so that an error there is unforeseen.
_SYSTEM_FOLDERS = ("/proc/", "/sys/", "/dev/")


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line on stderr and exit code 2.

    The numbers of all options are finite and bounded.

    Attributes:
        example: A complete command line for the help page, or None.
        trailing: The name of the value that gets the arguments after "--" unchanged, or None.
        hints: What to say about a value that is not a choice, instead of the nearest choice.
    """

    def __init__(
        self, prog: str | None = None, description: str | None = None, color: bool = False
    ) -> None:
        super().__init__(prog, description=description, allow_abbrev=False)
        # Python 3.14 colours the help; here every version of Python writes the same.
        self.color = False
        # The arguments that are being parsed, for error messages.
        self._argv: list[str] = []
        self.example: str | None = None
        self.trailing: str | None = None
        self.hints: Mapping[str, str] = {}
        self.register("type", int, kinds.any_whole)
        self.register("type", float, kinds.any_number)

    def parse_known_args(  # type: ignore[override]
        self, args: Iterable[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the arguments that the parser knows, and return the others.

        In contrast to argparse, ``--option=--`` is an error; argparse ignores such a value.
        """
        argv = self._with_usual_spellings(list(sys.argv[1:] if args is None else args))
        self._argv = argv
        for argument in _before_separator(argv):
            if argument.startswith("--") and argument.endswith("=--"):
                self.error(f"argument {argument[:-3]}: expected a value after '='")
        for action in self._actions:
            _note_when_given(action)
        if self.trailing is None or "--" not in argv:
            return super().parse_known_args(argv, namespace)
        separator = argv.index("--")
        parsed, unknown = super().parse_known_args(argv[:separator], namespace)
        setattr(parsed, self.trailing, tuple(argv[separator + 1 :]))
        parsed.given = {**getattr(parsed, "given", {}), self.trailing: "--"}
        return parsed, unknown

    def _with_usual_spellings(self, argv: list[str]) -> list[str]:
        """Replace each second spelling by the option that this command has."""
        options = self._option_string_actions
        usual: list[str] = []
        for index, argument in enumerate(argv):
            if argument == "--":
                return usual + argv[index:]
            option, equals, value = argument.partition("=")
            if option not in options:
                for spelling in SECOND_SPELLINGS.get(option, ()):
                    if spelling in options:
                        option = spelling
                        break
            usual.append(option + equals + value)
        return usual

    def parse_args(  # type: ignore[override]
        self, args: Iterable[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Parse all arguments, as argparse does.

        An unknown argument is an error of the chosen command, so that the message names the help
        page of that command.
        """
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self._chosen(parsed).refuse(unknown)
        return parsed

    def _get_value(self, action: argparse.Action, text: str) -> object:
        """Convert a text to the type of its argument, as argparse does.

        The message of an InputError is shown as it is. The empty text is refused for options,
        because it is usually an unset variable of a shell.
        """
        if not text and action.option_strings and action.const != "":
            raise argparse.ArgumentError(action, "its value is empty")
        convert = self._registry_get("type", action.type, action.type)
        try:
            value: object = convert(text)
            return value
        except InputError as error:
            raise argparse.ArgumentError(action, str(error)) from None
        except (argparse.ArgumentTypeError, TypeError, ValueError):
            # Raises the error again, with the message of argparse.
            refused: object = super()._get_value(action, text)
            return refused

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Refuse a value that is not a choice, with a hint or the nearest choice."""
        if action.choices is not None and value not in action.choices:
            # Imported here so that --help starts fast.
            from topologies.errors import nearest

            choices = [str(choice) for choice in action.choices]
            hint = self.hints.get(str(value))
            if not hint:
                hint = nearest(str(value), choices, "choose from ", len(choices))
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}; {hint}")

    def format_help(self) -> str:
        """Return the help page: the options by subject, and an example."""
        from testbed.commands.help_pages import help_text

        return help_text(self, self.example)

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        """Print a message, and raise the error if the help cannot be written.

        argparse ignores such an error.
        """
        if file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)

    def _chosen(self, parsed: argparse.Namespace) -> "OneLineParser":
        """Return the parser of the command, or of its subcommand, that was parsed."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                chosen = action.choices.get(str(getattr(parsed, action.dest, "")))
                if isinstance(chosen, OneLineParser):
                    return chosen._chosen(parsed)
        return self

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """End with exit code 2 because of unknown arguments, and name the nearest option."""
        first = unknown[0]
        nearest_option = self._nearest_option(first)
        if first.startswith("-"):
            kind = "option"
            shown = printable(first.partition("=")[0])
        else:
            kind = "argument"
            shown = printable(" ".join(unknown))
        hint = ""
        if nearest_option is not None:
            hint = f"; did you mean {nearest_option}?"
        elif self.trailing is not None and kind == "argument":
            hint = f"; what is to be run stands after --, as in: ... -- {shown}"
        self.error(f"unknown {kind} {shown[:80]}{hint}")

    def _nearest_option(self, argument: str) -> str | None:
        """Return the option that the argument abbreviates, misspells or names as the library."""
        option = argument.partition("=")[0]
        if not option.startswith("-"):
            return None
        name = option.lstrip("-").replace("-", "_")
        for action in self._actions:
            if action.dest == name and action.option_strings:
                return action.option_strings[0]
        if len(option) > 3:
            for option_string in self._option_string_actions:
                if option_string.startswith(option):
                    return option_string
        matches = difflib.get_close_matches(option, self._option_string_actions, n=1)
        return matches[0] if matches else None

    def error(self, message: str) -> NoReturn:
        """End with one line and exit code 2.

        If an option is missing, the message names an unknown option that is similar to one of the
        command, because it may be the missing one, misspelt.
        """
        if message.startswith("the following arguments are required"):
            for argument in _before_separator(self._argv):
                nearest_option = self._nearest_option(argument)
                is_known = argument.partition("=")[0] in self._option_string_actions
                if nearest_option is not None and not is_known:
                    message = f"unknown option {argument[:80]}; did you mean {nearest_option}?"
                    break
        self.exit(2, f"{self.prog}: {' '.join(message.split())}; see {self.prog} --help\n")


def _before_separator(argv: list[str]) -> list[str]:
    """Return the arguments before "--"."""
    return argv[: argv.index("--")] if "--" in argv else argv


class _Noted(argparse.Action):
    """An action that also records its option in the namespace.

    The namespace gets two attributes. ``given`` maps the name of each value on the command line to
    the option as the user wrote it. ``ruled`` lists pairs of such an option and a condition under
    which it has an effect (``Only``).
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        spellings = dict(getattr(namespace, "given", {}))
        if (
            option_string
            and self.dest in spellings
            and not isinstance(self, argparse._AppendAction)
        ):
            message = f"{spellings[self.dest]} stands there already; give it once"
            raise argparse.ArgumentError(self, message)
        super().__call__(parser, namespace, values, option_string)
        if option_string is not None or values not in (None, []):
            written = option_string or str(self.metavar or self.dest)
            namespace.given = {**spellings, self.dest: written}
            rules = [(written, only) for only in getattr(self, "only", ())]
            namespace.ruled = [*getattr(namespace, "ruled", ()), *rules]


def _note_when_given(action: argparse.Action) -> None:
    """Let an action record its option, unless it ends the program or chooses a command."""
    kind = type(action)
    excluded = (argparse._HelpAction, argparse._VersionAction, argparse._SubParsersAction)
    if not isinstance(action, (_Noted, *excluded)):
        action.__class__ = type(kind.__name__, (_Noted, kind), {})


def reported(action: Callable[[], int]) -> int:
    """Run an action and return its exit code, or report its error as one line on stderr."""
    from testbed.extras import missing_extra

    try:
        code = action()
        sys.stdout.flush()
        return code
    except TestbedError as error:
        return _complain(str(error), error.exit_code)
    except ImportError as error:
        missing = missing_extra(error)
        if missing is None:
            return _unforeseen(error)
        return _complain(str(missing), missing.exit_code)
    except OSError as error:
        path = str(error.filename)
        if error.errno in _BAD_PATH and not path.startswith(_SYSTEM_FOLDERS):
            message = f"{path[:60]}: cannot be opened ({error.strerror}); give another place"
            return _complain(message, InputError.exit_code)
        if error.errno not in _FULL:
            return _unforeseen(error)
        return _complain(_full_disk(error), CapabilityError.exit_code)
    except KeyboardInterrupt:
        _give_up_output()
        return _complain("interrupted", INTERRUPTED)
    except (SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - includes the panics of libraries in Rust
        code_of_networks = _code_of_networks(error)
        if code_of_networks is None:
            return _unforeseen(error)
        return _complain(str(error), code_of_networks)


def _full_disk(error: OSError) -> str:
    import tempfile

    name = "a file" if error.filename is None else str(error.filename)
    return (
        f"{name}: cannot be written ({error.strerror}); free space there"
        f" (temporary files are in {tempfile.gettempdir()}, see TMPDIR)"
    )


def _code_of_networks(error: BaseException) -> int | None:
    """Return the exit code for an error of ``topologies``, or None for any other error.

    ``topologies`` is imported only after an error, so that commands start fast.
    """
    from topologies.errors import LackingError, TopologyError
    from topologies.registry import PluginError

    if isinstance(error, LackingError):
        return CapabilityError.exit_code
    if isinstance(error, (TopologyError, PluginError)):
        return InputError.exit_code
    return None


def _unforeseen(error: BaseException) -> int:
    from testbed.commands.unforeseen import describe

    return _complain(*describe(error))


def _give_up_output() -> None:
    """Discard the buffered output, so that the end of the program reports no error."""
    # Either step fails if stdout is closed.
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str, code: int) -> int:
    """Print an error message, with a hint about links that the shell has cut, and return the code.

    The shell cuts ``s1->s2`` at the >, and redirects the output to the file ``s2``.
    """
    for argument in sys.argv[1:]:
        if re.fullmatch("[^->][^>]*-", argument) and argument in message:
            message += (
                f"; the shell takes > for a file: write the link as {argument}..., "
                f"or in quotes, as '{argument}>...'"
            )
            break
    complain(message)
    return code


def read_ends(args: argparse.Namespace, network: "Network") -> None:
    """Replace the texts of ``--from`` and ``--to`` in ``args`` by nodes of the network.

    Raises:
        InputError: A text is not a node.
    """
    from testbed.model.naming.names import read_node

    for end in ("source", "sink"):
        text = getattr(args, end)
        if text is not None:
            setattr(args, end, read_node(text, network))


Subparsers: TypeAlias = "argparse._SubParsersAction[OneLineParser]"
