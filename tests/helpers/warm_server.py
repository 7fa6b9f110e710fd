"""Python programs in processes of their own that need not import: each is a fork of this one, which has imported what
takes long. Started by ``tests.helpers.warm``, which says what is asked of it.

    python -P -m tests.helpers.warm_server DESCRIPTOR [LISTENING]

DESCRIPTOR: who asks first. LISTENING: where others of the same user may come to ask.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import sys
import tempfile
import threading
import traceback
import types
from typing import Any

from testbed.emulation.sandbox.sandbox_entry import enter
from tests.helpers.outlines import figures_outlined

FIRST = 400
"""Lowest number of a descriptor of this program's own: those below are for the programs."""
_PRELOADED = (
    "distributed", "matplotlib.backends.backend_svg", "matplotlib.pyplot", "networkx",
    "os_ken.ofproto.ofproto_v1_3_parser", "sfio_emu.adapters.listener",
    "scipy.optimize", "scipy.sparse.csgraph", "scipy.spatial.transform", "testbed.api.emulated.sandbox_server",
    "testbed.bulk.emulated.endpoints", "testbed.cli", "testbed.conformance",
    "testbed.interconnect.compiled.compiled_run", "testbed.report.page", "testbed.stream.emulated.fabric",
    "testbed.striping.emulated.program_run", "tests.helpers.sandboxed_call",
)  # fmt: skip


def main(first: socket.socket, listening: socket.socket | None) -> None:
    """Fork for every request, and tell the end of every child; until nobody asks any more."""
    children = dict[int, tuple[int, int]]()
    asking = {first.fileno(): first}
    while asking:
        for ready in select.select(
            [*asking, *children, *([listening] if listening else [])], [], []
        )[0]:
            if ready is listening:
                _admit(ready, asking)
            elif ready in children:
                pid, status = children.pop(ready)
                ended = os.waitpid(pid, 0)[1]
                with contextlib.suppress(
                    BrokenPipeError
                ):  # who asked for it is gone, or waits for it no more
                    os.write(status, str(ended).encode())
                os.close(status)
                os.close(ready)
            elif not _serve(asking[ready], children):
                asking.pop(ready).close()
                if listening and not asking and select.select([listening], [], [], 0)[0]:
                    _admit(listening, asking)


def _admit(listening: socket.socket, asking: dict[int, socket.socket]) -> None:
    """Another worker of the tests; no other user's program."""
    came = socket.socket(fileno=_moved(listening.accept()[0].detach()))
    if (
        struct.unpack("3i", came.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        == os.geteuid()
    ):
        asking[came.fileno()] = came


def _serve(requests: socket.socket, children: dict[int, tuple[int, int]]) -> bool:
    """Fork for one request; whether there was one."""
    text, received, _, _ = socket.recv_fds(requests, 1 << 20, 64)
    given = [_moved(number) for number in received]
    if not text:
        return False
    if (child := os.fork()) == 0:
        _become(json.loads(text), given)
    for number in given[:-1]:
        os.close(number)
    children[_moved(os.pidfd_open(child))] = child, given[-1]
    return True


def _moved(number: int) -> int:
    try:
        return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, FIRST)
    finally:
        os.close(number)


def _become(request: dict[str, Any], given: list[int]) -> None:
    """The program, from its beginning to its end."""
    code: object = 70
    try:
        *streams, status = given
        for number, descriptor in zip(request["numbers"], streams, strict=True):
            os.dup2(descriptor, number)
        if request["session"]:
            os.setsid()
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        os.write(status, f"{os.getpid()}\n".encode())
        os.closerange(FIRST, 1024)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(
                number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            )
        _streams()
        if request["sandbox"] is not None:
            enter(request["sandbox"])
            tempfile.tempdir = None
        with figures_outlined() if request["outlined"] else contextlib.nullcontext():
            _run(**request["program"])
        code = 0
    except SystemExit as end:
        code = end.code if end.code is not None else 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:  # noqa: BLE001 - as an interpreter does
        traceback.print_exc()
        code = 1
    finally:
        _end(code)


def _streams() -> None:
    """Python's own, as at its start."""
    tempfile.tempdir = None
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = open(number, "w" if number else "r", closefd=False)  # noqa: SIM115 - as long as the process
        if number == 2:
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _run(argv: list[str], path: list[str], kind: str, what: str) -> None:
    """Run a program like ``python -m what``, ``python -c what`` or ``python what``.

    Args:
        argv: The arguments of the program.
        path: Folders from which it imports.
        kind: How Python is asked to run it.
        what: The module, statements or file.
    """
    sys.argv[:] = argv
    sys.path[:0] = path
    importlib.invalidate_caches()
    if kind == "-m":
        if not hasattr(sys.modules.get(what), "__path__"):
            sys.modules.pop(what, None)
        runpy._run_module_as_main(what, alter_argv=True)  # type: ignore[attr-defined]
    elif kind == "-c":
        program = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), program.__dict__)
    else:
        runpy.run_path(what, run_name="__main__")


def _end(code: object) -> None:
    """End the process like an interpreter, but without freeing objects one by one."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    doors = [socket.socket(fileno=_moved(int(word))) for word in sys.argv[1:]]
    for name in _PRELOADED:
        importlib.import_module(name)
    from fec.redundancy.worst_windows import WorstWindows
    from testbed.emulation.machine.capabilities import find_capabilities

    WorstWindows([[(0, 8192)]], 20).sizes(
        40503
    )  # compiled code: what numba loads when the first of it is called
    find_capabilities()  # what stored streams say of the machine, tried once a process
    gc.collect()
    gc.freeze()
    main(doors[0], doors[1] if doors[1:] else None)
