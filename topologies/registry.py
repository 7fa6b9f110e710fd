"""Registries of things that have a name and can be added by plug-ins: routings, codes, topologies.

A module registers its built-in things when it is imported. A plug-in is an entry point of another
package, in the group that has the name of the registry
(``[project.entry-points."testbed.routings"]``). Plug-ins are looked for only when a name is
requested that is not built in, or when all names are listed. They go through the same ``register``.

A plug-in is broken if it does not load, is not of the right kind, or has a name that is taken. The
registry keeps it with its package and the reason, and works without it.
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

# The form FILE.py:NAME.
_NAME_IN_FILE = re.compile(r".+\.py:[A-Za-z_]\w*")


class PluginError(ValueError):
    """A plug-in is unusable; the message names it, its package and the reason."""


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """An entry point of another package, or an object in a Python file of the user.

    Attributes:
        group: The group of the entry point, which is the name of the registry.
        name: The name of the entry point or of the object.
        package: Name and version of the package, or the path of the file.
        broken: Why it cannot be used, or None.
    """

    group: str
    name: str
    package: str
    broken: str | None = None

    @property
    def title(self) -> str:
        """The plug-in and its package, for messages."""
        return f"plug-in {self.name!r} of package {self.package} ({self.group})"


class Registry(Generic[T]):
    """Things of one kind by their names.

    A registered name may end in a colon and a word, as ``disjoint:k``. It is then found under any
    value after the colon, as ``disjoint:3``. A thing may also be defined in a Python file of the
    user, if the registry allows it.

    Args:
        group: The group of the entry points of plug-ins.
        kind: What the things are, for messages, as "function".
        check: Returns why an object is not a thing of this kind, or None if it is one.
        ours: Errors that functions may raise. Any other error that a plug-in's function raises
            becomes a PluginError.
        files: Whether a name ``FILE.py:NAME`` stands for the object NAME in a file of the user.

    >>> def check(thing):
    ...     return None if callable(thing) else "it cannot be called"
    >>> doubles = Registry("testbed.doubles", "function", check)
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
        self.group = group
        self.kind = kind
        self._files = files
        self._check = check
        self._ours = ours
        # The usable things and their full names, by key (see ``_key``).
        self._things: dict[str, T] = {}
        self._titles: dict[str, str] = {}
        # None until plug-ins have been looked for.
        self._plugins: dict[str, Plugin] | None = None

    def register(self, name: str, thing: T) -> None:
        """Add a thing under a name.

        Raises:
            PluginError: The thing is not of this kind, or the name is taken.
        """
        key = _key(name)
        reason = "the name is taken" if key in self._things else self._check(thing)
        if reason is not None:
            raise PluginError(f"{self.kind} {name!r} of {self.group}: {reason}")
        self._things[key] = thing
        self._titles[key] = name

    def find(self, name: str) -> T | None:
        """Return the thing with this name, or None if there is none.

        Raises:
            PluginError: The name belongs to a broken plug-in, or to a file that does not define it.
        """
        if self.in_file(name):
            return self._load_from_file(name)
        key = _key(name)
        if key not in self._things:
            plugin = self._load_plugins().get(key)
            if plugin is not None and plugin.broken is not None:
                raise PluginError(
                    f"{plugin.title} cannot be used: {plugin.broken}; repair or remove the package"
                )
        return self._things.get(key)

    def in_file(self, name: str) -> bool:
        """Return whether the name has the form ``FILE.py:NAME`` and this registry reads files."""
        return self._files and _NAME_IN_FILE.fullmatch(name) is not None

    def _load_from_file(self, name: str) -> T:
        """Return the object ``FILE.py:NAME``; the file is run the first time."""
        if name not in self._things:
            file, _, name_in_file = name.rpartition(":")
            plugin = Plugin(group=self.group, name=name_in_file, package=file)
            try:
                thing = runpy.run_path(file).get(name_in_file)
            # A file of the user may raise anything; every error becomes a message of one line.
            except (Exception, SystemExit) as error:
                raise PluginError(
                    f"{self.kind} {name!r}: {file} does not load: {_error_text(error)}"
                ) from error
            reason = f"{file} has no {name_in_file}" if thing is None else self._check(thing)
            if reason is not None:
                raise PluginError(f"{self.kind} {name!r}: {reason}")
            self._things[name] = self._guarded(plugin, thing)
        return self._things[name]

    def builtin_names(self) -> tuple[str, ...]:
        """Return the names of the things that are not plug-ins, in the order of registration."""
        plugins = self._plugins or {}
        return tuple(title for key, title in self._titles.items() if key not in plugins)

    def names(self) -> tuple[str, ...]:
        """Return all names that can be used: first the built-in ones, then those of plug-ins."""
        self._load_plugins()
        return tuple(self._titles.values())

    def has(self, name: str) -> bool:
        """Return whether the name is taken, with any parameter; a broken plug-in counts."""
        names = [*self.names(), *(plugin.name for plugin in self.plugins())]
        return _key(name) in {_key(each) for each in names}

    def nearest(self, wrong: str) -> str:
        """Return advice on which name to give instead of an unknown one."""
        names = self.names()
        return nearest(wrong, names, "choose one of ", len(names))

    def plugins(self) -> tuple[Plugin, ...]:
        """Return all plug-ins of the group in the order of their names, broken ones included."""
        return tuple(plugin for _, plugin in sorted(self._load_plugins().items()))

    def forget_plugins(self) -> None:
        """Remove all plug-ins; the next request looks for them again."""
        for key, plugin in (self._plugins or {}).items():
            if plugin.broken is None:
                self._things.pop(key, None)
                self._titles.pop(key, None)
        self._plugins = None

    def _load_plugins(self) -> dict[str, Plugin]:
        """Load the plug-ins of the group, if that has not been done yet, and return them by key."""
        if self._plugins is None:
            # Imported here because the import takes time and most commands need no plug-in.
            from importlib.metadata import entry_points

            self._plugins = {}
            points = entry_points(group=self.group)
            for point in sorted(points, key=lambda point: (point.name, _package(point))):
                self._load_plugin(point, self._plugins)
        return self._plugins

    def _load_plugin(self, point: "EntryPoint", plugins: dict[str, Plugin]) -> None:
        """Load one plug-in, register it unless it is broken, and add it to ``plugins``."""
        plugin = Plugin(group=self.group, name=point.name, package=_package(point))
        key = _key(point.name)
        broken = None
        if key in self._things or key in plugins:
            broken = "its name is taken"
            key = f"{key} ({plugin.package})"
        else:
            try:
                self.register(point.name, self._guarded(plugin, point.load()))
            except PluginError as error:
                broken = str(error).rpartition(": ")[2]
            # A plug-in may raise anything; the testbed must work without it.
            except Exception as error:  # noqa: BLE001
                broken = f"it does not load ({type(error).__name__}: {error})"
            except SystemExit as error:
                broken = f"it does not load (it ends the program: {error})"
        plugins[key] = Plugin(
            group=plugin.group, name=plugin.name, package=plugin.package, broken=broken
        )

    def _guarded(self, plugin: Plugin, thing: object) -> Any:
        """Wrap a function so that its unexpected errors name its package.

        Classes and objects that cannot be called are returned unchanged.
        """
        if isinstance(thing, type) or not callable(thing):
            return thing
        expected_errors: tuple[type[Exception], ...] = (*self._ours, PluginError)

        @functools.wraps(thing)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                return thing(*args, **kwargs)
            except expected_errors:
                raise
            except Exception as error:
                raise PluginError(
                    f"{plugin.title} failed: {type(error).__name__}: {error}"
                ) from error

        return guarded


def _error_text(error: BaseException) -> str:
    """Return the type and the message of an error, without the file name of an OSError."""
    message = str(error)
    if isinstance(error, OSError) and error.strerror:
        message = error.strerror
    return f"{type(error).__name__}: {message}"


def _key(name: str) -> str:
    """Return the name without its parameter: ``disjoint:`` for ``disjoint:3``."""
    head, colon, _ = name.partition(":")
    return head + colon


def _package(point: "EntryPoint") -> str:
    distribution = getattr(point, "dist", None)
    if distribution is None:
        return "?"
    return f"{distribution.name} {distribution.version}"


def function_check(parameters: str) -> Callable[[object], str | None]:
    """Return a check for ``Registry`` that accepts functions.

    Args:
        parameters: What the functions take, for the message, as "a network".
    """

    def check(thing: object) -> str | None:
        if callable(thing):
            return None
        return f"it is no function of {parameters}"

    return check
