"""An exception that nobody foresaw: one line that says so, the traceback in a file, and an exit code that no verdict
has.

Too little memory is distinguished, in whatever form it comes up: that is the machine's lack, not a fault of the
testbed.
"""

import contextlib
import os
import sys
import threading
import traceback

from testbed.errors import NO_MEMORY, CapabilityError, is_lack_of_memory
from testbed.report.streams import complain

UNFORESEEN = 70
"""EX_SOFTWARE of sysexits(3)."""
SHOW = "TESTBED_TRACEBACK"
"""The environment variable with which the traceback is shown on stderr as well."""
_IN_THREADS: list[str] = []


def describe(error: BaseException) -> tuple[str, int]:
    """The line and the exit code for an exception that reached the edge of the command."""
    if is_lack_of_memory(error):
        traceback.clear_frames(error.__traceback__)
        return NO_MEMORY, CapabilityError.exit_code
    if (
        isinstance(error, FileNotFoundError)
        and traceback.extract_tb(error.__traceback__)[-1].name == "_execute_child"
    ):
        line = f"no program {error.filename} is on PATH; install it, or add its folder to PATH"
        return line, CapabilityError.exit_code
    text = "".join(traceback.format_exception(error))
    if os.environ.get(SHOW):
        print(text, file=sys.stderr)
    last = traceback.format_exception_only(error)[-1].strip()
    place = _keep(text)
    where = (
        f"the traceback is in {place}"
        if place
        else f"no file could be written for the traceback; {SHOW}=1 shows it"
    )
    if isinstance(error, (ConnectionError, EOFError)):
        return (
            f"a process of this command has ended ({last[:500]}): was it killed? {where}",
            CapabilityError.exit_code,
        )
    return f"an error that nobody foresaw, please report it: {last[:500]}; {where}", UNFORESEEN


def install_thread_handler() -> None:
    """An exception that ends a thread of the command is reported in the same way, and counts
    (``exit_code_with_threads``)."""
    threading.excepthook = _ended_thread


def exit_code_with_threads(code: int) -> int:
    """The exit code of a command that ended with ``code``: a verdict is none where a thread ended by what nobody
    foresaw."""
    return UNFORESEEN if _IN_THREADS and code in (0, 1, 4, 5) else code


def _ended_thread(what: threading.ExceptHookArgs) -> None:
    if what.exc_value is None or issubclass(what.exc_type, SystemExit):
        return
    line, _ = describe(what.exc_value)
    _IN_THREADS.append(line)
    complain(line)


def _keep(text: str) -> str | None:
    """Write the traceback to a new file that only its user reads; its name, None where there is no place for one.

    In a sandbox TMPDIR goes with the sandbox: there the system's own folders come first.
    """
    import tempfile

    places = ("/tmp", "/var/tmp", None) if "TESTBED_SANDBOX" in os.environ else (None, "/var/tmp")
    for place in places:
        with contextlib.suppress(OSError):
            handle, name = tempfile.mkstemp(prefix="testbed-traceback-", suffix=".txt", dir=place)
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(
                    f"testbed {' '.join(map(repr, sys.argv[1:]))}\nPython {sys.version}\n\n{text}"
                )
            return name
    return None
