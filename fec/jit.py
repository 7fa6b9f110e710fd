"""Compiles algorithms to machine code.

An entry is a function that Python calls, and that is compiled together with the functions that it
calls, its steps. They are plain functions of numbers and arrays, which tests run uncompiled.
A call of an entry runs the first of these that is possible:

1. The routine of ``kernels-x86-64-v3.so``, which is built with a wheel and by ``make kernels``.
2. The code that numba compiles at the first use. This takes seconds, and numba caches the result.
3. The plain function, if numba is not installed.

The library avoids the import of numba, which takes half a second, and the compilation.
docs/dev/compile.md compares their speed.
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
from collections.abc import Callable, Collection, Iterable
from operator import itemgetter
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, cast, get_type_hints

import numpy as np

from fec.cache_directory import own_cache

# Reports at level INFO that code is being compiled, and warns if algorithms are slow.
LOGGER = logging.getLogger(__name__)

KERNELS = Path(__file__).with_name("kernels-x86-64-v3.so")
KERNELS_DIGEST = KERNELS.with_name("kernels-x86-64-v3.sha256")

# The flags in /proc/cpuinfo of a processor with the instructions of x86-64-v3.
PROCESSOR = frozenset(["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"])

# A routine is called with words of 64 bits: one for its result, one that it sets when it returns,
# and then the arguments.
RESULT, RETURNED, FIRST_ARGUMENT = range(3)


def compiled_entry(entry: Callable[..., Any], **options: Any) -> Any:
    """Return a function as a compiled entry, or plain if ``NUMBA_DISABLE_JIT`` is set.

    Args:
        entry: A function of numbers, arrays and (named) tuples of them. It returns a number or
            None, as its annotation says, and writes its other results into its arrays.
        options: The options of ``CompiledEntry``.
    """
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return _plain(entry)
    return CompiledEntry(entry, **options)


class CompiledEntry:
    """A compiled function with the steps that it calls, which are found by their names in the code.

    Attributes:
        called: A hook for tests and for ``make kernels``, or None. It is called before each call of
            an entry, with the name of the routine, the entry and the arguments.
        missed: The same after each call of an entry for which the library has no routine.
        steps: The entry and its steps.
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
            teach: Registers functions at numba that it cannot compile by itself; called once
                before numba compiles.
            taught: The functions that ``teach`` registers. They are not steps.
            inline: Steps that numba compiles into their callers.
            options: Options of ``numba.njit`` for the entry and its steps.
        """
        self.steps = steps_of(entry, taught)
        self._teach = teach
        self._inline = inline
        self._options = options
        self._routines: dict[tuple[Any, ...], Callable[[list[int]], Any] | None] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Run the routine for arguments of these types, which numba compiles if necessary."""
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
        """Return the name of the library's routine for arguments of these types.

        Args:
            kinds: Types, dimensions and lengths of the arguments, as ``_flatten`` returns them.
        """
        descriptions = []
        for kind in kinds:
            descriptions.append(kind.descr if isinstance(kind, np.dtype) else kind)
        text = repr(descriptions)
        digest = hashlib.sha256((self.digest + text).encode()).hexdigest()[:16]
        return f"{self.steps[0].__name__}_{digest}"

    @functools.cached_property
    def digest(self) -> str:
        """A digest of the source of all steps, of what they refer to, and of ``teach``'s module."""
        source = fingerprint(self.steps).encode()
        if self._teach:
            source = Path(self._teach.__code__.co_filename).read_bytes() + source
        return hashlib.sha256(source).hexdigest()[:16]

    @functools.cached_property
    def result(self) -> str:
        """The type of the result by its annotation: int, float, bool or None."""
        kind = self.steps[0].__annotations__.get("return", "int")
        if isinstance(kind, str):
            return kind
        return getattr(kind, "__name__", "None")

    @functools.cached_property
    def by_numba(self) -> Any:
        """The entry compiled by numba, or plain if numba is not installed.

        Its name contains the digest, because numba itself only looks at the file of the entry.
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
        """Return the routine of this name, which takes the words of a call, or None."""
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


_registered: set[Callable[..., Any]] = set()


def call(function: Any, block: np.ndarray[Any, np.dtype[np.int64]]) -> None:
    """Call a routine of the library.

    Args:
        function: The routine, which reads the same words as integers, as pointers and as floats.
        block: The words of the call: result, whether it has returned, and the arguments.
    """
    address = ctypes.c_void_p(block.ctypes.data)
    function(address, address, address)


def _flatten(arguments: tuple[Any, ...]) -> tuple[list[Any], list[int]]:
    """Return the types of the arguments, and the 64-bit words with which a routine is called."""
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
        kinds.append(value.dtype if isinstance(value, np.generic) else type(value).__name__)
        if isinstance(value, float | np.floating):
            raw_words.append(int(np.float64(value).view(np.int64)))
        else:
            raw_words.append(int(value))


def _plain(entry: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that behaves like the compiled entry, but runs in Python.

    Fields of records are read by name, and overflow of numbers causes no warning.
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
    """Return ``numba.njit(**options)`` of the function, cached in a directory of the user.

    The directory is ``NUMBA_CACHE_DIR``, or else ``parallel-communications-testbed/numba`` in
    ``XDG_CACHE_HOME`` or in ``~/.cache``. It is not in the source tree, which may be read-only. If
    the directory cannot be written, or if it belongs to another user, who could put code into it,
    every process compiles the code again.
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

    numba also reads settings from ``.numba_config.yaml`` in the current directory, now and before
    each compilation. They include the directory from which it loads compiled code, and the file may
    belong to another user. numba has no public setting that turns this off.
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
    """Log one line when this process first compiles something; numba reports it by an event."""
    from numba.core import event

    class Announcer(event.Listener):  # type: ignore[misc]
        announced = False

        def on_start(self, reported: Any) -> None:
            if not self.announced:
                self.announced = True
                LOGGER.info("compiling code for this machine, this once; 5 to 60 s ...")

        def on_end(self, reported: Any) -> None:
            """Say nothing."""

    event.register("numba:compile", Announcer())


@functools.cache
def kernels() -> ctypes.CDLL | None:
    """Return the library of compiled routines, or None if it cannot be used.

    It cannot be used on another processor, or if ``TESTBED_KERNELS`` is "numba". A file whose
    digest differs from the stored one is damaged: a truncated one would kill the process.
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
        flags = next((line.split() for line in processors if line.startswith("flags")), [])
    return frozenset(flags) >= PROCESSOR


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
        without: Functions that are left out, with what only they name.
    """
    steps = [cast(FunctionType, entry)]
    for step in steps:
        called = (value for value in _named_in(step).values() if isinstance(value, FunctionType))
        steps += dict.fromkeys(
            function for function in called if function not in (*steps, *without)
        )
    return steps


def _named_in(step: FunctionType) -> dict[str, Any]:
    """Return the values (functions, constants, types) that a step's code and annotations name.

    They are looked up in the step's module, and in modules of the same product that it names.
    """
    # Annotations are text if the module postpones their evaluation.
    kinds = step.__annotations__.values()
    texts = " ".join(kind for kind in kinds if isinstance(kind, str))
    names = dict.fromkeys((*step.__code__.co_names, *re.findall(r"\w+", texts)))
    values = {kind.__name__: kind for kind in kinds if hasattr(kind, "_fields")}
    values |= {name: step.__globals__[name] for name in names if name in step.__globals__}
    product = step.__module__.partition(".")[0]
    for module in [value for value in values.values() if isinstance(value, ModuleType)]:
        if module.__name__.partition(".")[0] == product:
            values |= {name: vars(module)[name] for name in names if name in vars(module)}
    return values


def fingerprint(steps: Iterable[FunctionType]) -> str:
    """Return a digest of steps, which is the same in every version of Python.

    It changes with the text of a step, and with the numbers and the fields of named tuples that a
    step refers to.
    """
    parts: list[str] = []
    tuples: set[Any] = set()
    for step in steps:
        values = sorted(_named_in(step).items(), key=itemgetter(0))
        plain = [(name, value) for name, value in values if isinstance(value, int | float)]
        tuples.update(value for _, value in values if hasattr(value, "_fields"))
        parts.append(repr((_text_of(step), plain)))
    parts += [repr((kind.__name__, _fields_of(kind))) for kind in tuples]
    return hashlib.sha256("".join(sorted(parts)).encode()).hexdigest()[:16]


def _fields_of(kind: Any) -> list[Any]:
    """Return the names of a named tuple's fields, each with those of its own fields."""
    if not hasattr(kind, "_fields"):
        return []
    kinds = get_type_hints(kind)
    return [(name, _fields_of(kinds.get(name))) for name in kind._fields]


def _text_of(step: FunctionType) -> str:
    """Return the source lines of a function, or its byte code if there is no source."""
    lines = linecache.getlines(step.__code__.co_filename)[step.__code__.co_firstlineno - 1 :]
    match = re.match(r"(@.*\n)*def .*\n([ )#].*\n|\n)*", "".join(lines))
    return match[0].rstrip() if match else repr(step.__code__.co_code)
