"""Compiled code: read from what was compiled ahead, else made by numba at first use and kept for the next time. The
set-up that this package and the testbed share.

numba takes half a second to import and seconds to compile, so it is left alone while ``kernels-x86-64-v3.so`` (made by
``make kernels``, see docs/dev/compile.md) has what is called. A routine in it is found by a name that contains a digest
of its source, of all that this refers to, and of its arguments' types: what was made of other source is never called.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import linecache
import logging
import os
import platform
import pwd
import re
import stat
from collections.abc import Callable, Collection, Iterable
from operator import itemgetter
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, cast, get_type_hints

import numpy as np

from fec.errors import EngineUnavailable

LOGGER = logging.getLogger(__name__)
"""Says at level INFO when a function begins to be compiled (``compiling NAME``); what is read from the cache is not
compiled. Nobody hears it who does not listen."""

KERNELS = Path(__file__).with_name("kernels-x86-64-v3.so")
KERNELS_DIGEST = KERNELS.with_name("kernels-x86-64-v3.sha256")
PROCESSOR = frozenset(["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"])
"""What /proc/cpuinfo has to list for it: x86-64-v3."""
RESULT_WORDS = 9
"""The first words of a call's: room for what is returned, then the arguments."""


def compiled(function: Callable[..., Any], *signature: str, **options: Any) -> Any:
    """``numba.njit(*signature, **options)`` of the function, kept in a cache directory of the user's.

    That is ``NUMBA_CACHE_DIR``, else ``parallel-communications-testbed/numba`` in ``XDG_CACHE_HOME``, else in
    ``~/.cache``: the source tree may be read-only. Where no directory can be written, or it is another user's (who
    could put code of his there), the code is compiled again in every process.
    """
    numba = _numba()
    _tell_of_compilations()
    if not numba.config.CACHE_DIR:
        numba.config.CACHE_DIR = own_cache()
    try:
        return numba.njit(*signature, cache=bool(numba.config.CACHE_DIR), **options)(function)
    except RuntimeError:  # numba's "no locator available"
        return numba.njit(*signature, **options)(function)


@functools.cache
def _numba() -> Any:
    """Import numba, configured by the environment alone.

    numba takes settings from ``.numba_config.yaml`` in the current directory, too, now and before
    each compilation. Among them is the directory whose compiled code it loads, and the file may be
    another user's.
    """
    import numba
    from numba.core import config

    config._config_fname = os.devnull
    config.reload_config()
    return numba


class CompiledEntry:
    """An entry with the steps that it calls, found by their names in the code; all of them plain functions.

    ``options``: numba's. ``teach``: is called before numba compiles, and ``taught`` are functions that numba then
    knows; the code of ``inline`` steps is put where they are called.
    """

    missed: Callable[[str, CompiledEntry, tuple[Any, ...]], None] | None = None
    """Told of each call of what was not compiled ahead: the name that is looked for, the entry, the arguments."""

    def __init__(
        self,
        entry: Callable[..., Any],
        *,
        teach: FunctionType | None = None,
        taught: Collection[Callable[..., Any]] = (),
        inline: Collection[Callable[..., Any]] = (),
        **options: Any,
    ) -> None:
        self.steps = steps_of(entry, taught)
        self._teach, self._inline, self._options = teach, inline, options
        self._ahead: dict[tuple[Any, ...], Callable[[Any], Any] | None] = {}

    def __call__(self, *arguments: Any) -> Any:
        kinds: list[Any] = []
        words = [0] * RESULT_WORDS
        _flatten(arguments, kinds, words)
        key = tuple(kinds)
        if key not in self._ahead:
            self._ahead[key] = compiled_ahead(self.symbol(kinds))
        routine = self._ahead[key]
        if routine is not None:
            return routine(words)
        result = self.by_numba(*arguments)
        if CompiledEntry.missed:
            CompiledEntry.missed(self.symbol(kinds), self, arguments)
        return result

    def symbol(self, kinds: Iterable[Any]) -> str:
        """The name of the routine for arguments of these kinds."""
        text = repr([kind.descr if isinstance(kind, np.dtype) else kind for kind in kinds])
        return f"{self.steps[0].__name__}_{hashlib.sha256((self.digest + text).encode()).hexdigest()[:16]}"

    @functools.cached_property
    def digest(self) -> str:
        """See ``fingerprint``; it changes with what numba is taught, too."""
        taught = Path(self._teach.__code__.co_filename).read_bytes() if self._teach else b""
        return hashlib.sha256(taught + fingerprint(self.steps).encode()).hexdigest()[:16]

    @functools.cached_property
    def by_numba(self) -> Any:
        """Compiled by numba under a name with the digest in it, since numba itself looks at the file of the entry
        alone."""
        from numba.extending import register_jitable

        if self._teach:
            self._teach()
        for step in self.steps[1:]:
            if step not in _registered:  # without an entry for C, which only Python would call
                options = {
                    **self._options,
                    "no_cfunc_wrapper": True,
                    "forceinline": step in self._inline,
                }
                register_jitable(**options)(step)
                _registered.add(step)
        entry = self.steps[0]
        named = FunctionType(entry.__code__, entry.__globals__, entry.__name__)
        named.__qualname__ = f"{entry.__name__}_{self.digest}"
        return compiled(named, **self._options)


_registered: set[Callable[..., Any]] = set()


def compiled_entry(entry: Callable[..., Any], **options: Any) -> Any:
    """A ``CompiledEntry``; the plain function where ``NUMBA_DISABLE_JIT`` is set."""
    return (
        entry
        if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"
        else CompiledEntry(entry, **options)
    )


def bound(entry: Any, *arguments: Any) -> Callable[[], Any]:
    """A call of a compiled entry, which returns a whole number, with these arguments for good, arrays where they lie: a
    microsecond. EngineUnavailable where it was not compiled ahead: who asks is in no state to wait for numba, which
    compiles for those alone that are told of it (``missed``)."""
    if isinstance(entry, CompiledEntry):
        kinds, words = list[Any](), [0] * RESULT_WORDS
        _flatten(arguments, kinds, words)
        if (function := getattr(kernels(), entry.symbol(kinds), None)) is not None:
            given = (ctypes.c_int64 * len(words))(*words)
            place = ctypes.c_void_p(ctypes.addressof(given))

            def call(held: Any = arguments) -> Any:
                function(place)
                return given[0]

            return call
        if CompiledEntry.missed:
            return functools.partial(entry, *arguments)
    raise EngineUnavailable(
        "packets are handled one by one: nothing is compiled ahead for this machine"
    )


def _flatten(value: Any, kinds: list[Any], words: list[int]) -> None:
    """The value as words of 64 bits, as numba hands it to a function, and what tells its type."""
    if isinstance(value, np.ndarray):
        kinds += value.dtype, value.ndim, value.flags.c_contiguous
        words += 0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides
    elif isinstance(value, tuple):
        kinds.append(len(value))
        for part in value:
            _flatten(part, kinds, words)
    elif value is None:
        kinds.append(None)
        words.append(0)
    else:
        kinds.append(value.dtype if isinstance(value, np.generic) else type(value).__name__)
        real = isinstance(value, float | np.floating)
        words.append(int(np.float64(value).view(np.int64)) if real else int(value))


def compiled_ahead(symbol: str) -> Callable[[list[int]], Any] | None:
    """The routine of that name: takes the words of a call, returns what it returns. None where there is none."""
    library = kernels()
    if library is None or not hasattr(library, symbol):
        return None
    function, shape = (
        getattr(library, symbol),
        ctypes.string_at(getattr(library, f"{symbol}_returns")).decode(),
    )
    function.argtypes = [ctypes.c_void_p]

    def routine(words: list[int]) -> Any:
        given = (ctypes.c_int64 * len(words))(*words)
        status = function(given)
        if status not in (0, -2):  # -2: it returns None
            raise MemoryError(f"{symbol} ended with status {status}")
        return _result(shape, np.ctypeslib.as_array(given), library)

    return routine


def _result(shape: str, words: Any, library: ctypes.CDLL) -> Any:
    """What the words say: by letters of numpy's types, ``A`` before an array's; several are a tuple."""
    found, at = [], 0
    for array, letter in re.findall("(A?)(.)", shape):
        kind = np.dtype(letter)
        if array:
            held, _, _, size, place = words[at : at + 5].tolist()
            found.append(np.frombuffer(ctypes.string_at(place, words[at + 5] * size), kind).copy())
            library.release_array(ctypes.c_void_p(held))
            at += 7
        else:
            found.append(words[at : at + 1].view(kind)[0].item())
            at += 1
    return found[0] if len(found) == 1 else tuple(found) or None


@functools.cache
def kernels() -> ctypes.CDLL | None:
    """Return the library of what was compiled ahead, or None if it cannot be used.

    That is so on another processor, and if ``TESTBED_KERNELS`` is "numba". A file with another
    digest than the one beside it is damaged: a shortened one would end the process by a signal.
    """
    if os.environ.get("TESTBED_KERNELS") == "numba" or platform.machine() != "x86_64":
        return None
    try:
        with Path("/proc/cpuinfo").open() as processors:
            listed = next((line.split() for line in processors if line.startswith("flags")), [])
        if not frozenset(listed) >= PROCESSOR:
            return None
        if kernels_are_intact():
            return ctypes.CDLL(str(KERNELS))
    except OSError:
        return None
    LOGGER.warning("%s is damaged: what it holds is compiled again", KERNELS)
    return None


def kernels_are_intact() -> bool:
    """Return whether the library of what was compiled ahead has the digest that was stored with it.

    Raises:
        OSError: One of the two files cannot be read.
    """
    digest = hashlib.sha256(KERNELS.read_bytes()).hexdigest()
    return KERNELS_DIGEST.read_text().strip() == digest


def steps_of(
    entry: Callable[..., Any], without: Collection[Callable[..., Any]] = ()
) -> list[FunctionType]:
    """The entry, and the functions that its code names, directly or not, but some."""
    steps = [cast(FunctionType, entry)]
    for step in steps:
        called = (value for value in _named_in(step).values() if isinstance(value, FunctionType))
        steps += dict.fromkeys(
            function for function in called if function not in (*steps, *without)
        )
    return steps


def _named_in(step: FunctionType) -> dict[str, Any]:
    """What a step's code and annotations name in its module, and in modules of the same product that they name."""
    kinds = step.__annotations__.values()  # as text where the module postpones them
    texts = " ".join(kind for kind in kinds if isinstance(kind, str))
    names = dict.fromkeys((*step.__code__.co_names, *re.findall(r"\w+", texts)))
    found = {kind.__name__: kind for kind in kinds if hasattr(kind, "_fields")}
    found |= {name: step.__globals__[name] for name in names if name in step.__globals__}
    product = step.__module__.partition(".")[0]
    for module in [value for value in found.values() if isinstance(value, ModuleType)]:
        if module.__name__.partition(".")[0] == product:
            found |= {name: vars(module)[name] for name in names if name in vars(module)}
    return found


def fingerprint(steps: Iterable[FunctionType]) -> str:
    """Changes with the text of any step, and with the numbers and the fields of named tuples that one refers to. The
    same in every version of Python."""
    seen: list[str] = []
    tuples: set[Any] = set()
    for step in steps:
        values = sorted(_named_in(step).items(), key=itemgetter(0))
        plain = [(name, value) for name, value in values if isinstance(value, int | float)]
        tuples.update(value for _, value in values if hasattr(value, "_fields"))
        seen.append(repr((_text_of(step), plain)))
    seen += [repr((kind.__name__, _fields_of(kind))) for kind in tuples]
    return hashlib.sha256("".join(sorted(seen)).encode()).hexdigest()[:16]


def _fields_of(kind: Any) -> list[Any]:
    """The names of a named tuple's fields, and of those of named tuples in it."""
    kinds = get_type_hints(kind) if hasattr(kind, "_fields") else {}
    return [(name, _fields_of(kinds.get(name))) for name in getattr(kind, "_fields", ())]


def _text_of(step: FunctionType) -> str:
    """A function's lines; its code where there is no source."""
    lines = linecache.getlines(step.__code__.co_filename)[step.__code__.co_firstlineno - 1 :]
    found = re.match(r"(@.*\n)*def .*\n([ )#].*\n|\n)*", "".join(lines))
    return found[0].rstrip() if found else repr(step.__code__.co_code)


_CACHE = ("parallel-communications-testbed", "numba")


@functools.cache
def own_cache() -> str:
    """Return the user's cache directory, and create it if it is missing.

    Each folder from / to it must belong to the user or to root, and nobody else may write into it:
    another user could exchange what is in it, and it is loaded as code. No folder that exists is
    changed, and no link below the user's own cache directory is followed.

    Returns:
        The path, or "" if another user has a say in it (HOME is theirs), or it cannot be created.
    """
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute()
        owners = _trusted_owners(base)
        for folder in (base, *base.parents):
            # A link is as safe as the folder in which it lies.
            if os.path.lexists(folder) and folder.lstat().st_uid not in owners:
                return ""
        place = base.resolve().joinpath(*_CACHE)
        for folder in reversed((place, *place.parents)):
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o700)
            if not _only_for(folder, owners, sticky_suffices=folder.name not in _CACHE):
                return ""
    except (OSError, RuntimeError):
        return ""
    return str(place)


def _only_for(folder: Path, owners: Collection[int], *, sticky_suffices: bool) -> bool:
    """Return whether only the owners can exchange what is in the folder, which may not be a link.

    Args:
        folder: The folder.
        owners: User ids.
        sticky_suffices: The folder may be one like /tmp, in which nobody can exchange our folder.
    """
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in owners:
        return False
    if sticky_suffices and status.st_mode & stat.S_ISVTX:
        return True
    writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    # A group with the user's own number has no other members (user private groups).
    private = status.st_gid == os.getegid() == os.geteuid()
    return not writable or (private and writable == stat.S_IWGRP)


def _uid_map() -> str:
    return Path("/proc/self/uid_map").read_text()


def _trusted_owners(base: Path) -> set[int]:
    """Return the ids of root and this user.

    In a user namespace, as of a sandbox, all other users have one id, root too. It is trusted if
    the folder is below the home directory that the system knows.
    """
    owners = {0, os.geteuid()}
    inside, outside, count = map(int, _uid_map().split()[:3])
    if inside == os.geteuid() and count == 1:
        with contextlib.suppress(KeyError):
            home = Path(pwd.getpwuid(outside).pw_dir)
            if base.is_relative_to(home):
                owners.add(int(Path("/proc/sys/kernel/overflowuid").read_text()))
    return owners


@functools.cache
def _tell_of_compilations() -> None:
    """Pass numba's own events on to the logger: the outermost function of what is compiled together."""
    from numba.core import event

    class Teller(event.Listener):  # type: ignore[misc]
        depth = 0

        def on_start(self, reported: Any) -> None:
            self.depth += 1
            if self.depth == 1:
                name = reported.data["dispatcher"].py_func.__name__
                LOGGER.info(
                    "compiling %s for this machine, this once; 5 to 60 s ...",
                    name.strip("_").replace("_", " "),
                )

        def on_end(self, reported: Any) -> None:
            self.depth -= 1

    event.register("numba:compile", Teller())
