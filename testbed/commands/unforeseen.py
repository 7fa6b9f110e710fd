"""Reports an unforeseen exception: one line, the traceback in a file, and a separate exit code.

A lack of memory is reported as such, whatever exception it raises, because it is not a fault of the
testbed.
"""

import contextlib
import os
import sys
import threading
import traceback

from testbed.errors import NO_MEMORY, CapabilityError, is_lack_of_memory
from testbed.report.streams import complain

# EX_SOFTWARE of sysexits(3).
UNFORESEEN = 70
# The environment variable that shows the traceback on stderr as well.
SHOW = "TESTBED_TRACEBACK"
# The reports of exceptions that ended a thread.
_IN_THREADS: list[str] = []


def describe(error: BaseException) -> tuple[str, int]:
    """Return the line and the exit code for an exception that no other code handled."""
    if is_lack_of_memory(error):
        # Frees the memory that the frames still use.
        traceback.clear_frames(error.__traceback__)
        return NO_MEMORY, CapabilityError.exit_code
    if isinstance(error, FileNotFoundError):
        # ``subprocess`` raises the error there if there is no such program.
        raised_in = traceback.extract_tb(error.__traceback__)[-1].name
        if raised_in == "_execute_child":
            line = f"no program {error.filename} is on PATH; install it, or add its folder to PATH"
            return line, CapabilityError.exit_code
    text = "".join(traceback.format_exception(error))
    if os.environ.get(SHOW):
        print(text, file=sys.stderr)
    last_line = traceback.format_exception_only(error)[-1].strip()[:500]
    path = _store_traceback(text)
    if path is None:
        hint = f"no file could be written for the traceback; {SHOW}=1 shows it"
    else:
        hint = f"the traceback is in {path}"
    if isinstance(error, (ConnectionError, EOFError)):
        line = f"a process of this command has ended ({last_line}): was it killed? {hint}"
        return line, CapabilityError.exit_code
    return f"an error that nobody foresaw, please report it: {last_line}; {hint}", UNFORESEEN


def install_thread_handler() -> None:
    """Report exceptions that end a thread, and let them change the command's exit code."""
    threading.excepthook = _ended_thread


def exit_code_with_threads(code: int) -> int:
    """Return the exit code of the command, which an unforeseen exception in a thread changes.

    Such an exception makes a verdict (codes 0, 1, 4 and 5) worthless.

    Args:
        code: The exit code if no thread had such an exception.
    """
    return UNFORESEEN if _IN_THREADS and code in (0, 1, 4, 5) else code


def _ended_thread(hook_args: threading.ExceptHookArgs) -> None:
    if hook_args.exc_value is None or issubclass(hook_args.exc_type, SystemExit):
        return
    line, _ = describe(hook_args.exc_value)
    _IN_THREADS.append(line)
    complain(line)


def _store_traceback(text: str) -> str | None:
    """Write the traceback to a new file that only the user can read.

    The first folder that can be written is used. In a sandbox the system's folders come first,
    because its TMPDIR is deleted with it.

    Returns:
        The path of the file, or None if no folder can be written.
    """
    import tempfile

    # None stands for TMPDIR.
    folders: tuple[str | None, ...] = (None, "/var/tmp")
    if "TESTBED_SANDBOX" in os.environ:
        folders = ("/tmp", "/var/tmp", None)
    arguments = " ".join(map(repr, sys.argv[1:]))
    for folder in folders:
        with contextlib.suppress(OSError):
            handle, path = tempfile.mkstemp(prefix="testbed-traceback-", suffix=".txt", dir=folder)
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(f"testbed {arguments}\nPython {sys.version}\n\n{text}")
            return path
    return None
