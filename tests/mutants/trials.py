"""Tests in forks: a process that has imported what others wrote, and nothing of the project, forks for every test run.

A run of tests as they are notes which lines of the package each test executes. Of a mutant run the tests that execute
its statement, the quickest first, then the rest of their files: a test may read what another has computed.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import resource
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

THIRD_PARTY = (
    "numpy",
    "numpy.random",
    "numpy.testing",
    "scipy.sparse",
    "scipy.optimize",
    "scipy.special",
    "networkx",
    "hypothesis",
    "hypothesis.strategies",
    "hypothesis.internal.conjecture.engine",
    "pytest",
    "_pytest.pytester",
    "rich.table",
    "concurrent.futures.thread",
    "asyncio",
    "unittest.mock",
    "csv",
    "sqlite3",
    "tomllib",
    "xml.etree.ElementTree",
)
MAX_MEMORY_BYTES = 6 << 30
"""Of one test run: a mutant's endless loop may fill a list for ever."""
TIMED_OUT = 124
WORDS = (
    "-q",
    "-x",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "--hypothesis-profile=mutants",
    "--tb=line",
)


class Trials:
    """Test runs of a package in the copy of the project at ``tree``; its ``modules`` are relative to it. To be made in
    a process that has not imported the project, and is left for this."""

    def __init__(
        self, tree: Path, modules: Sequence[Path], tests: Sequence[str], deselect: str, notes: Path
    ) -> None:
        os.chdir(tree)
        for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
            del sys.modules[name]
        sys.path[:] = [str(tree), *(place for place in sys.path if place not in ("", str(tree)))]
        for name in THIRD_PARTY:
            with suppress(ImportError):
                importlib.import_module(name)
        self._tree, self._log = tree, notes.with_suffix(".log")
        marks = ["-m", "not emulation", *(["-k", deselect] if deselect else [])]
        self._words = [*WORDS, *marks]
        self.seconds: dict[str, float] = {}
        self._executed: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._files: dict[tuple[str, ...], list[str]] = defaultdict(list)
        known = json.loads(notes.read_text()) if notes.exists() else {}
        for words in self._of_each_file(tests):
            key = " ".join(words)
            if key not in known:
                known[key] = self._noted(words, modules)
                notes.write_text(json.dumps(known))
            seconds, places = known[key]
            self.seconds.update(seconds)
            self._files[words] += seconds
            for name, line, found in places:
                self._executed[name][line] |= set(found)

    def _of_each_file(self, tests: Sequence[str]) -> list[tuple[str, ...]]:
        """pytest's words for each file of tests: the file, or ``FILE::NAME`` of those of its functions that are
        wanted."""
        found: dict[Path, list[str]] = {}
        for place in tests:
            path, name = self._tree / place.partition("::")[0], place.partition("::")[2]
            for file in [path] if path.is_file() else sorted(path.rglob("test_*.py")):
                found.setdefault(file, []).append(
                    str(file.relative_to(self._tree)) + (f"::{name}" if name else "")
                )
        return [tuple(dict.fromkeys(words)) for words in found.values()]

    def _noted(self, words: Sequence[str], modules: Sequence[Path]) -> list[Any]:
        """Seconds of each test of the file, and (module, line, tests that execute it); SystemExit where one fails, for
        then nothing can be learned."""
        noted = self._log.with_suffix(".noted")
        names = {str(self._tree / module): str(module) for module in modules}

        def with_lines() -> int:
            import pytest

            lines = Lines(list(names))
            code = int(pytest.main([*self._words, *words], plugins=[lines]))
            found = [
                [names[name], line, sorted(tests)] for (name, line), tests in lines.tests_of.items()
            ]
            noted.write_text(json.dumps([lines.seconds, found]))
            return code

        if self._forked(with_lines, 1800, keep_bytecode=True) not in (
            0,
            5,
        ):  # 5: everything in it needs switches
            sys.exit(
                f"{words[0]}: its tests fail on code without a mutant\n{self._log.read_text()[-3000:]}"
            )
        found: list[Any] = json.loads(noted.read_text())
        return found

    def tests_for(self, module: Path, line: int) -> list[str]:
        """Those that execute the statement at the line, quickest first; of a module of which nobody sees anything
        executed, as all of it is compiled, those of the modules beside it."""
        source = (self._tree / module).read_text()
        near = candidates(source, line, self._executed[str(module)])
        if (
            not near
            and "compiled" in source
            and not set().union(*self._executed[str(module)].values()) - {""}
        ):
            beside = [
                seen for name, seen in self._executed.items() if Path(name).parent == module.parent
            ]
            near = set().union(*(tests for seen in beside for tests in seen.values())) - {""}
        return sorted(near, key=lambda name: (self.seconds.get(name, 0.0), name))

    def killed(self, first: Sequence[str]) -> tuple[bool, str]:
        """Whether one of these tests, or of the others of their files, fails on what is in the tree now; and what the
        run said."""
        if not first:
            return False, "no test executes it"
        chosen = [words for words, tests in self._files.items() if set(tests) & set(first)]
        usual = sum(self.seconds.get(test, 0.0) for words in chosen for test in self._files[words])

        def in_order() -> int:
            import pytest

            return int(
                pytest.main(
                    [*self._words, *(word for words in chosen for word in words)],
                    plugins=[Order(first)],
                )
            )

        code = self._forked(in_order, 20 + 6 * usual)
        return code != 0, self._log.read_text()[-4000:]

    def _forked(
        self, action: Callable[[], int], processor_s: float, *, keep_bytecode: bool = False
    ) -> int:
        """Its exit code. It is given so many seconds of a processor, which a busy machine does not shorten, and for
        what only waits twenty times as long."""
        sys.stdout.flush()
        process = os.fork()
        if process == 0:
            code = 99
            try:
                os.setsid()
                sys.dont_write_bytecode = not keep_bytecode
                resource.setrlimit(resource.RLIMIT_CPU, (round(processor_s), round(processor_s)))
                resource.setrlimit(
                    resource.RLIMIT_AS,
                    (MAX_MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]),
                )
                said = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(said, 1)
                os.dup2(said, 2)
                sys.argv = ["pytest", *WORDS]  # the project's tests look here for the profile
                code = action()
            finally:
                with suppress(Exception):
                    sys.stdout.flush()
                os._exit(code)
        until = time.monotonic() + 20 * processor_s
        while time.monotonic() < until:
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
        return TIMED_OUT


class Lines:
    """A plug-in of pytest: (file, line) -> tests that execute it, "" for what is executed while tests are imported."""

    def __init__(self, names: Sequence[str]) -> None:
        from coverage import Coverage

        self._names = names
        self.seconds: dict[str, float] = {}
        self._seen = Coverage(
            data_file=None, config_file=False, include=list(names), messages=False
        )
        self._seen.start()

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        self._seen.switch_context(nodeid)
        self.seconds[nodeid] = -time.process_time()

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        self.seconds[nodeid] += time.process_time()
        self._seen.switch_context("")

    @property
    def tests_of(self) -> dict[tuple[str, int], set[str]]:
        self._seen.stop()
        data = self._seen.get_data()
        lines = ((name, data.contexts_by_lineno(name)) for name in self._names)
        return {(name, line): set(tests) for name, found in lines for line, tests in found.items()}


class Order:
    """A plug-in of pytest: these tests first, in this order."""

    def __init__(self, first: Sequence[str]) -> None:
        self._place = {name: k for k, name in enumerate(first)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: self._place.get(item.nodeid, len(self._place)))


def candidates(source: str, line: int, executed: Mapping[int, set[str]]) -> set[str]:
    """Tests that execute the statement at the line, of those that execute each line of its module ("" imports it). All
    of them, where it is executed when the module is imported, and where none was seen to execute it in a module with
    compiled functions, into which nobody sees."""
    near = set().union(*(executed.get(at, ()) for at in statement_lines(source, line)))
    if "" in near or (not near and "compiled" in source):
        near = set().union(*executed.values())
    return near - {""}


def statement_lines(source: str, line: int) -> range:
    """The lines of the statement around that line; of one that holds others (``if``, ``for``), those of its head."""
    best = range(line, line + 1)
    size = sys.maxsize
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt | ast.ExceptHandler):
            body = getattr(node, "body", None)
            decorated = [d.lineno for d in getattr(node, "decorator_list", [])]
            start = min([node.lineno, *decorated])
            stop = max(start + 1, body[0].lineno) if body else (node.end_lineno or node.lineno) + 1
            if start <= line < stop and stop - start < size:
                best, size = range(start, stop), stop - start
    return best
