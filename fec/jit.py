"""Algorithms compiled to machine code.

Python calls an entry, which is compiled together with its steps: the functions that it calls. An
entry and its steps are plain functions of numbers and arrays, which tests also run uncompiled.
A call of an entry takes the first of these that is possible:

1. the routine of ``kernels-x86-64-v3.so``, which is made with a wheel and by ``make kernels``;
2. the code that numba compiles at the first use, which takes seconds, and stores for later runs;
3. the plain function, if numba is not installed.

The library saves the import of numba, which takes half a second, and the compilation.
docs/dev/compile.md says what each of them is worth.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import linecache
import logging
import os
import platform
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import itemgetter
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, cast, get_type_hints

import numpy as np

from fec.cache_directory import own_cache

#: Reports at level INFO that code is being compiled, and warns if algorithms will be slow.
LOGGER = logging.getLogger(__name__)

KERNELS = Path(__file__).with_name("kernels-x86-64-v3.so")
KERNELS_DIGEST = KERNELS.with_name("kernels-x86-64-v3.sha256")
# The flags of x86-64-v3 in /proc/cpuinfo.
PROCESSOR = frozenset(["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"])
# Positions in the words of 64 bits that a routine takes: its result, 1 if it has returned, and the
# arguments.
RESULT = 0
RETURNED = 1
FIRST_ARGUMENT = 2


def compiled_entry(entry: Callable[..., Any], **options: Any) -> Any:
    """Return the entry compiled with the steps that it calls.

    If ``NUMBA_DISABLE_JIT`` is set, the plain entry is returned.

    Args:
        entry: A function of numbers, arrays and (named) tuples of them. It returns a number or
            None, as its annotation says, and writes all other results into its arrays.
        options: Options of ``CompiledEntry``.
    """
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return _plain(entry)
    return CompiledEntry(entry, **options)


class CompiledEntry:
    """An entry with the steps that it calls, found by their names in the code.

    Attributes:
        called: If set, it is called before each call of an entry, with symbol, entry and arguments.
        missed: If set, it is called likewise, but after each call of an entry that is not in the
            library.
    """

    called: Callable[[str, CompiledEntry, tuple[Any, ...]], None] | None = None
    missed: Callable[[str, CompiledEntry, tuple[Any, ...]], None] | None = None

    def __init__(
        self,
        entry: Callable[..., Any],
        *,
        teach: FunctionType | None = None,
        taught: Collection[Callable[..., Any]] = (),
        inline: Collection[Callable[..., Any]] = (),
        **options: Any,
    ) -> None:
        """Prepare an entry; nothing is compiled before the first call.

        Args:
            entry: The function that Python calls.
            teach: Called before numba compiles.
            taught: Functions that numba can compile calls of after ``teach``.
            inline: Steps whose code numba puts where they are called.
            options: Options of ``numba.njit`` for the entry and its steps.
        """
        self.steps = steps_of(entry, taught)
        self._teach = teach
        self._inline = inline
        self._options = options
        self._routines: dict[tuple[Any, ...], Callable[[list[int]], Any] | None] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Call the routine of the library, else the entry compiled by numba or plain."""
        kinds, raw_words = _flatten(arguments)
        key = tuple(kinds)
        if CompiledEntry.called:
            CompiledEntry.called(self.symbol(kinds), self, arguments)
        if key not in self._routines:
            self._routines[key] = self._from_library(self.symbol(kinds))
        routine = self._routines[key]
        if routine is not None:
            return routine(raw_words)
        result = self.by_numba(*arguments)
        if CompiledEntry.missed:
            CompiledEntry.missed(self.symbol(kinds), self, arguments)
        return result

    def symbol(self, kinds: Iterable[Any]) -> str:
        """Return the name of the routine for arguments of these kinds.

        Args:
            kinds: The kinds as returned by ``_flatten``.
        """
        parts = []
        for kind in kinds:
            parts.append(kind.descr if isinstance(kind, np.dtype) else kind)
        digest = _short_digest(self.digest + repr(parts))
        return f"{self.steps[0].__name__}_{digest}"

    @functools.cached_property
    def digest(self) -> str:
        """A digest of the steps, the values that they refer to, and the module of ``teach``."""
        taught = ""
        if self._teach:
            taught = Path(self._teach.__code__.co_filename).read_text(encoding="utf-8")
        return _short_digest(taught + fingerprint(self.steps))

    @functools.cached_property
    def result(self) -> str:
        """The name of the type of the result, by its annotation: int, float, bool or None."""
        kind = self.steps[0].__annotations__.get("return", "int")
        if isinstance(kind, str):
            return kind
        return getattr(kind, "__name__", "None")

    @functools.cached_property
    def by_numba(self) -> Any:
        """The entry compiled by numba, or plain if numba is not installed.

        Its name contains the digest. numba itself would only compare the file of the entry, and use
        stored code although a step in another file has changed.
        """
        entry = self.steps[0]
        if _numba() is None:
            return _plain(entry)
        from numba.extending import register_jitable

        if self._teach and self._teach not in _registered:
            self._teach()
            _registered.add(self._teach)
        for step in self.steps[1:]:
            if step not in _registered:
                register_jitable(**self._options, forceinline=step in self._inline)(step)
                _registered.add(step)
        named = FunctionType(entry.__code__, entry.__globals__, entry.__name__)
        named.__qualname__ = f"{entry.__name__}_{self.digest}"
        return compiled(named, **self._options)

    def _from_library(self, symbol: str) -> Callable[[list[int]], Any] | None:
        """Return a function that calls the routine of this name with the words of a call.

        Returns:
            None if the library has no such routine.

        Raises:
            MemoryError: The returned function raises it if the routine fails.
        """
        function = getattr(kernels(), symbol, None)
        if function is None:
            return None
        result = self.result

        def routine(raw_words: list[int]) -> Any:
            block = np.array(raw_words, dtype=np.int64)
            call(function, block)
            if not block[RETURNED]:
                raise MemoryError(f"{symbol} has failed; the machine may be out of memory")
            if result == "float":
                return block[RESULT : RESULT + 1].view(np.float64)[0].item()
            if result == "None":
                return None
            number = int(block[RESULT])
            if result == "bool":
                return bool(number)
            return number

        return routine


# Steps that numba can already call, and functions ``teach`` that were already called.
_registered: set[Callable[..., Any]] = set()


def call(function: Any, block: np.ndarray[Any, np.dtype[np.int64]]) -> None:
    """Call a routine.

    Args:
        function: The function of the library.
        block: The words of the call. The routine reads them as integers, as pointers and as floats,
            so it gets their address three times.
    """
    address = ctypes.c_void_p(block.ctypes.data)
    function(address, address, address)


def _flatten(arguments: tuple[Any, ...]) -> tuple[list[Any], list[int]]:
    """Return the kinds of the arguments and the words of a call.

    Returns:
        The kinds, which determine the machine code: of an array its dtype, number of dimensions and
        whether it is contiguous; of a tuple its length and the kinds of its items; of a number its
        type. And the words: of an array its address and shape; of a number its value.
    """
    kinds: list[Any] = []
    raw_words = [0] * FIRST_ARGUMENT
    _add(arguments, kinds, raw_words)
    return kinds, raw_words


def _add(value: Any, kinds: list[Any], raw_words: list[int]) -> None:
    if isinstance(value, np.ndarray):
        kinds += value.dtype, value.ndim, value.flags.c_contiguous
        raw_words += value.ctypes.data, *value.shape
    elif isinstance(value, tuple):
        kinds.append(len(value))
        for part in value:
            _add(part, kinds, raw_words)
    elif value is None:
        kinds.append(None)
    else:
        if isinstance(value, np.generic):
            kinds.append(value.dtype)
        else:
            kinds.append(type(value).__name__)
        if isinstance(value, float | np.floating):
            raw_words.append(int(np.float64(value).view(np.int64)))
        else:
            raw_words.append(int(value))


def _plain(entry: Callable[..., Any]) -> Callable[..., Any]:
    """Return the plain function, called as compiled code is.

    Fields of records are read by name, and numbers that overflow do so silently.
    """

    def call_plain(*arguments: Any) -> Any:
        with np.errstate(over="ignore"):
            return entry(*map(as_records, arguments))

    return call_plain


def as_records(tables: Any) -> Any:
    """Return the same arrays, alone or in named tuples, with fields of records as attributes."""
    if isinstance(tables, np.ndarray) and tables.dtype.names:
        return tables.view(np.recarray)
    if hasattr(tables, "_make"):
        return tables._make(map(as_records, tables))
    return tables


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """Return ``numba.njit(**options)`` of the function; numba stores the code in a cache directory.

    The directory is ``NUMBA_CACHE_DIR``, else ``parallel-communications-testbed/numba`` in
    ``XDG_CACHE_HOME``, else in ``~/.cache``. It is not in the source tree, which may be read-only.
    The code is compiled again in every process if the directory cannot be written, or if it belongs
    to another user, who could put code into it.
    """
    numba = _numba()
    _announce_compilations()
    if not numba.config.CACHE_DIR:
        numba.config.CACHE_DIR = own_cache()
    try:
        return numba.njit(cache=bool(numba.config.CACHE_DIR), **options)(function)
    except RuntimeError:  # numba's "no locator available"
        return numba.njit(**options)(function)


@functools.cache
def _numba() -> Any:
    """Import numba, configured by the environment alone; return None if it is not installed.

    numba takes settings from ``.numba_config.yaml`` in the current directory, too, now and before
    each compilation. Among them is the directory whose compiled code it loads, and the file may be
    another user's. numba has no public setting that turns this off.
    """
    try:
        import numba
        from numba.core import config
    except ImportError:
        LOGGER.warning("numba is not installed: algorithms run in Python, many times slower")
        return None
    config._config_fname = os.devnull
    config.reload_config()
    return numba


@functools.cache
def _announce_compilations() -> None:
    """Log one line when numba reports that this process compiles something for the first time."""
    from numba.core import event

    class Announcer(event.Listener):  # type: ignore[misc]
        announced = False

        def on_start(self, reported: Any) -> None:
            if not self.announced:
                self.announced = True
                LOGGER.info("compiling code for this machine, this once; 5 to 60 s ...")

        def on_end(self, reported: Any) -> None:
            """Do nothing; numba requires the method."""

    event.register("numba:compile", Announcer())


@functools.cache
def kernels() -> ctypes.CDLL | None:
    """Return the library of compiled routines, or None if it cannot be used.

    It cannot be used on another processor, or if ``TESTBED_KERNELS`` is "numba". It is not used if
    its digest differs from the one stored beside it: loading a truncated file would end the process
    by a signal.
    """
    if os.environ.get("TESTBED_KERNELS") == "numba":
        return None
    try:
        if not processor_has_instructions():
            return None
        if kernels_are_intact():
            return ctypes.CDLL(str(KERNELS))
    except OSError:
        return None
    LOGGER.warning("%s is damaged: its routines are compiled again", KERNELS)
    return None


def processor_has_instructions() -> bool:
    """Return whether this processor has the instructions of x86-64-v3.

    Raises:
        OSError: /proc/cpuinfo cannot be read.
    """
    if platform.machine() != "x86_64":
        return False
    with Path("/proc/cpuinfo").open() as processors:
        for line in processors:
            if line.startswith("flags"):
                return frozenset(line.split()) >= PROCESSOR
    return False


def kernels_are_intact() -> bool:
    """Return whether the library has the digest that was stored with it.

    Raises:
        OSError: One of the two files cannot be read.
    """
    digest = hashlib.sha256(KERNELS.read_bytes()).hexdigest()
    return KERNELS_DIGEST.read_text().strip() == digest


def steps_of(
    entry: Callable[..., Any], without: Collection[Callable[..., Any]] = ()
) -> list[FunctionType]:
    """Return an entry and all functions that its code names, directly or through others.

    Args:
        entry: The function that Python calls.
        without: Functions that are omitted, together with all functions that only they name.
    """
    steps = [cast(FunctionType, entry)]
    # The list grows during the loop.
    for step in steps:
        for value in _named_in(step).values():
            if isinstance(value, FunctionType) and value not in (*steps, *without):
                steps.append(value)
    return steps


def _named_in(step: FunctionType) -> dict[str, Any]:
    """Return the values that a step's code and annotations name.

    They are looked up in the step's module, and in modules of the same product that it names.
    """
    names = list(step.__code__.co_names)
    values: dict[str, Any] = {}
    for kind in step.__annotations__.values():
        # Annotations are text if the module postpones their evaluation.
        if isinstance(kind, str):
            names += re.findall(r"\w+", kind)
        elif hasattr(kind, "_fields"):
            values[kind.__name__] = kind
    values |= _values_of(names, step.__globals__)
    product = step.__module__.partition(".")[0]
    for value in list(values.values()):
        if isinstance(value, ModuleType) and value.__name__.partition(".")[0] == product:
            values |= _values_of(names, vars(value))
    return values


def _values_of(names: Iterable[str], namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of those names that a namespace contains."""
    return {name: namespace[name] for name in names if name in namespace}


def _short_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def fingerprint(steps: Iterable[FunctionType]) -> str:
    """Return a digest of steps, which is the same in every version of Python.

    It changes with the text of a step, and with the numbers and the fields of named tuples that a
    step refers to.
    """
    parts: list[str] = []
    tuples: set[Any] = set()
    for step in steps:
        numbers = []
        for name, value in sorted(_named_in(step).items(), key=itemgetter(0)):
            if isinstance(value, int | float):
                numbers.append((name, value))
            if hasattr(value, "_fields"):
                tuples.add(value)
        parts.append(repr((_text_of(step), numbers)))
    for kind in tuples:
        parts.append(repr((kind.__name__, _fields_of(kind))))
    return _short_digest("".join(sorted(parts)))


def _fields_of(kind: Any) -> list[Any]:
    """Return the names of a named tuple's fields, each with the fields of its own type.

    The list is empty for any other type.
    """
    if not hasattr(kind, "_fields"):
        return []
    kinds = get_type_hints(kind)
    return [(name, _fields_of(kinds.get(name))) for name in kind._fields]


def _text_of(step: FunctionType) -> str:
    """Return the source of a function, or its byte code if there is no source."""
    lines = linecache.getlines(step.__code__.co_filename)[step.__code__.co_firstlineno - 1 :]
    # Decorators, the line of "def", and all lines that are indented, empty, comments or the closing
    # parenthesis of the parameters.
    match = re.match(r"(@.*\n)*def .*\n([ )#].*\n|\n)*", "".join(lines))
    if match is None:
        return repr(step.__code__.co_code)
    return match[0].rstrip()
