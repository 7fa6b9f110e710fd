"""Registries of what other packages add: names of one kind of thing, ours and those of installed plug-ins.

Ours are registered by the module that holds them. A plug-in is an entry point of its package, in the group of the same
name (``[project.entry-points."testbed.routings"]``): it is looked for only when a name is requested that is none of
ours, or all names are listed, and goes through the same ``register``. One that does not load, is of another kind or has
a name that is taken is kept as broken, with its package and the reason; it takes nothing else down.
"""

import functools
import re
import runpy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from topologies.errors import TopologyError, nearest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
T = TypeVar("T")


class PluginError(ValueError):
    """A plug-in of another package does not do what it must: which one, of which package, what is wrong."""


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """One entry point of another package; ``broken``: why it cannot be used, or None."""

    group: str
    name: str
    package: str
    broken: str | None = None

    @property
    def title(self) -> str:
        return f"plug-in {self.name!r} of package {self.package} ({self.group})"


class Registry(Generic[T]):
    """``kind``: what the things are, in words. ``check``: returns why a thing is none of them, or None.

    ``ours``: errors that a plug-in may raise as our own things do; any other that one of its functions raises becomes
    PluginError. ``files``: ``FILE.py:NAME`` finds what a file of the user calls so. A name may end in a colon and a
    word (``disjoint:k``): then whatever stands there is requested as ``disjoint:3``.

    >>> wrong = lambda thing: None if callable(thing) else "it cannot be called"
    >>> doubles = Registry("testbed.doubles", "function", wrong)
    >>> doubles.register("twice", lambda x: 2 * x)
    >>> doubles.find("twice")(4), doubles.find("thrice"), doubles.names()
    (8, None, ('twice',))
    """

    def __init__(
        self,
        group: str,
        kind: str,
        check: Callable[[object], str | None],
        ours: tuple[type[Exception], ...] = (TopologyError,),
        *,
        files: bool = False,
    ) -> None:
        self.group, self.kind, self._files = group, kind, files
        self._check, self._ours = check, ours
        self._things: dict[str, T] = {}
        self._titles: dict[str, str] = {}
        self._plugins: dict[str, Plugin] | None = None

    def register(self, name: str, thing: T) -> None:
        """Put a thing in under its name. PluginError where it is none of this kind or the name is taken."""
        wrong = "the name is taken" if _key(name) in self._things else self._check(thing)
        if wrong is not None:
            raise PluginError(f"{self.kind} {name!r} of {self.group}: {wrong}")
        self._things[_key(name)] = thing
        self._titles[_key(name)] = name

    def find(self, name: str) -> T | None:
        """The thing of that name (``disjoint:3`` finds ``disjoint:k``), None where nobody has it.

        PluginError where a plug-in or a file has it and is broken.
        """
        if self.in_file(name):
            return self._from_file(name)
        key = _key(name)
        if key not in self._things:
            plugin = self._others().get(key)
            if plugin is not None and plugin.broken is not None:
                raise PluginError(
                    f"{plugin.title} cannot be used: {plugin.broken}; repair or remove the package"
                )
        return self._things.get(key)

    def in_file(self, name: str) -> bool:
        """Whether the name is ``FILE.py:NAME`` and may be."""
        return self._files and _IN_FILE.fullmatch(name) is not None

    def _from_file(self, name: str) -> T:
        """What the file calls so; the file is run once, as ``import`` would."""
        if name not in self._things:
            file, _, called = name.rpartition(":")
            plugin = Plugin(group=self.group, name=called, package=file)
            try:
                thing = runpy.run_path(file).get(called)
            except (Exception, SystemExit) as error:  # whatever a user's file raises is one line
                raise PluginError(
                    f"{self.kind} {name!r}: {file} does not load: {_said(error)}"
                ) from error
            wrong = f"{file} has no {called}" if thing is None else self._check(thing)
            if wrong is not None:
                raise PluginError(f"{self.kind} {name!r}: {wrong}")
            self._things[name] = self._guarded(plugin, thing)
        return self._things[name]

    def builtin_names(self) -> tuple[str, ...]:
        """Names of ours, in the order in which they were registered."""
        return tuple(
            title for key, title in self._titles.items() if key not in (self._plugins or {})
        )

    def names(self) -> tuple[str, ...]:
        """All names that can be used, ours first."""
        self._others()
        return tuple(self._titles.values())

    def has(self, name: str) -> bool:
        """Return whether something is registered under the name, with any parameter; a broken plug-in counts."""
        known = [*self.names(), *(plugin.name for plugin in self.plugins())]
        return _key(name) in {_key(each) for each in known}

    def nearest(self, wrong: str) -> str:
        """What to give instead of a name that nobody has."""
        names = self.names()
        return nearest(wrong, names, "choose one of ", len(names))

    def plugins(self) -> tuple[Plugin, ...]:
        """All plug-ins of the group, broken ones too, by name."""
        return tuple(plugin for _, plugin in sorted(self._others().items()))

    def forget_plugins(self) -> None:
        """Look again for plug-ins when one is requested next."""
        for key in self._plugins or {}:
            if self._plugins and self._plugins[key].broken is None:
                self._things.pop(key, None)
                self._titles.pop(key, None)
        self._plugins = None

    def _others(self) -> dict[str, Plugin]:
        if self._plugins is None:
            from importlib.metadata import entry_points

            self._plugins = {}
            for point in sorted(
                entry_points(group=self.group), key=lambda p: (p.name, _package(p))
            ):
                self._take(point)
        return self._plugins

    def _take(self, point: "EntryPoint") -> None:
        assert self._plugins is not None
        plugin = Plugin(group=self.group, name=point.name, package=_package(point))
        key, broken = _key(point.name), None
        if key in self._things or key in self._plugins:
            broken, key = "its name is taken", f"{key} ({plugin.package})"
        else:
            try:
                self.register(point.name, self._guarded(plugin, point.load()))
            except PluginError as error:
                broken = str(error).rpartition(": ")[2]
            except Exception as error:  # noqa: BLE001 - whatever another's module raises, we go on without it
                broken = f"it does not load ({type(error).__name__}: {error})"
            except SystemExit as error:
                broken = f"it does not load (it ends the program: {error})"
        self._plugins[key] = Plugin(
            group=plugin.group, name=plugin.name, package=plugin.package, broken=broken
        )

    def _guarded(self, plugin: Plugin, thing: object) -> Any:
        """A function whose unexpected errors name its package; anything else as it is."""
        if isinstance(thing, type) or not callable(thing):
            return thing

        known: tuple[type[Exception], ...] = (*self._ours, PluginError)

        @functools.wraps(thing)
        def guarded(*words: Any, **named: Any) -> Any:
            try:
                return thing(*words, **named)
            except known:
                raise
            except Exception as error:
                raise PluginError(
                    f"{plugin.title} failed: {type(error).__name__}: {error}"
                ) from error

        return guarded


_IN_FILE = re.compile(r".+\.py:[A-Za-z_]\w*")


def _said(error: BaseException) -> str:
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{type(error).__name__}: {words}"


def _key(name: str) -> str:
    """``disjoint:k`` and ``disjoint:3`` are one name."""
    head, colon, _ = name.partition(":")
    return head + colon


def _package(point: "EntryPoint") -> str:
    found = getattr(point, "dist", None)
    return "?" if found is None else f"{found.name} {found.version}"


def function_check(words: str) -> Callable[[object], str | None]:
    """A check that a thing is a function; ``words`` say of what."""
    return lambda thing: None if callable(thing) else f"it is no function of {words}"
