"""The declaration of an option: one field of an options class, read by the command line, the library and whatever reads
files.

    @options
    class DownloadOptions:
        network: NetworkLike = option(positional=True, metavar="NETWORK", help="catalogue name or file")
        file_bytes: int = option(default="4MB", kind=kinds.size_bytes, help="of the file")

Values are checked where an options class is built, whoever builds it, by the same kinds and choices.
"""

from __future__ import annotations

import dataclasses
import re
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

from testbed.errors import InputError, UsageError, require_type
from testbed.model.options.kinds import Kind, rate_bps, search_limit

if TYPE_CHECKING:  # the networks' package: what says --help does without
    from topologies.text.json_types import Json, JsonObject

T = TypeVar("T")
ENDS = "network and end points"
SENT = "what is sent"
ROUTED = "routing and schedule"
CODE = "code"
FAULTS = "faults"
RUN = "the run"
GROUPS = (ENDS, SENT, ROUTED, CODE, FAULTS, RUN)
"""Headings of a help page that every command shares; an option with another stands under its own, after these."""
_SIMPLE: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "str": (str, "a text"),
    "bool": (bool, "True or False"),
}
"""Annotations that are checked here, and what to give."""


@dataclass(frozen=True, kw_only=True)
class Only:
    """An option has a meaning only where ``when`` holds of the options' values; ``needs`` says so in words: "--access
    strided"."""

    when: Callable[[Namespace], bool]
    needs: str


RUNNING = Only(
    when=lambda a: (
        getattr(a, "fabric", None) != "none"
        and not getattr(a, "list", False)
        and not getattr(a, "book", False)
    ),
    needs="a run (--list, --report-only and --fabric none make none)",
)


@dataclass(frozen=True, kw_only=True)
class Option:
    """What a field says of itself.

    ``name``: as the library takes it, with a dot inside nested options ("nac.slack"). ``flag``: as the command does (by
    itself ``flag_of`` the name; "" and ``positional``: by its place; None and not ``listed``: not at all), or
    ``short``. ``shown``: the default as written in its unit. ``choices``: the words that may be given, or a function
    that lists them. ``only``: when it has a meaning. ``switches_only``: the simulated fabric cannot carry it out, or
    not the values for which it is true. ``many``: it may be given several times, and is a tuple. ``negated``: a bool that is False by itself can be said to be so (--no-...), as one that is True can.
    ``presets``: other options' values that a value of this one stands for, where they are not given themselves.
    """

    name: str = ""
    flag: str | None = None
    positional: bool = False
    listed: bool = True
    short: tuple[str, ...] = ()
    default: object = MISSING
    shown: str | None = None
    kind: Kind | None = None
    choices: Sequence[str] | Callable[[], Sequence[str]] = ()
    group: str | None = None
    metavar: str | None = None
    help: str = ""
    only: tuple[Only, ...] = ()
    switches_only: bool | Callable[[Any], bool] = False
    many: bool = False
    negated: bool = False
    trailing: bool = False
    presets: Mapping[str, Json] = field(default_factory=dict)
    annotation: str = ""

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def words(self) -> str:
        """The help, with the default in it."""
        default = (
            "no"
            if self.negated and self.default is False
            else self.default
            if self.shown is None
            else self.shown
        )
        return with_default(self.help.replace("{default}", str(default)), default)

    def checked(self, value: object) -> object:
        """The value, of numpy as Python's. Raise UsageError for another type than the field's, InputError for what is
        beyond its bounds or choices."""
        value = value.tolist() if hasattr(value, "tolist") else value
        if self.metavar == "NODE":
            value = _node_names(value, self.annotation)
        if value is None and (self.default is None or "None" in self.annotation):
            return None
        if self.annotation.startswith("tuple[str, ...") and isinstance(value, str):
            raise UsageError(f"{self.name}: got the text {value[:60]!r}; give a list of texts")
        for one in value if self.many and isinstance(value, Sequence) else (value,):
            if self.kind is not None:
                self.kind.checked(one, self.name)
            elif (simple := _SIMPLE.get(self.annotation.partition(" ")[0])) is not None:
                require_type(one, simple[0], self.name, simple[1])
            choices = self.choices() if callable(self.choices) else self.choices
            if choices and one not in choices:
                from topologies.errors import (
                    nearest,
                )  # the networks' package: what says --help does without

                raise InputError(
                    f"{self.name} {one!r}: {nearest(str(one), choices, 'choose from ', len(choices))}"
                )
        return value


def _node_names(value: object, annotation: str) -> object:
    """Return the ids of nodes that are named as in a networkx graph, by numbers or tuples."""
    from topologies.network import node_name  # --help does without the networks' package

    if annotation == "str":
        return node_name(value)
    return tuple(map(node_name, value)) if isinstance(value, (list, tuple)) else value


def option(
    *, default: object = MISSING, kw_only: bool = True, kind: Kind | None = None, **said: Any
) -> Any:
    """A field of an options class; see ``Option``. A default that is text and has a ``kind`` is written in its unit:
    "4MB".

    ``kw_only`` False: the library takes it by its place as well; ``positional``: the command takes it without a flag.
    """
    value, shown = default, None
    if isinstance(default, str) and kind is not None:
        value, shown = kind(default), default
    if kind is not None:
        said.setdefault("metavar", kind.metavar)
    one = Option(default=value, shown=shown, kind=kind, **said)
    return field(default=value, kw_only=kw_only, metadata={"option": one})


ends, sent, routed, coded, failing, running = (
    partial(option, group=group) for group in (ENDS, SENT, ROUTED, CODE, FAULTS, RUN)
)
"""An option under one of the headings that every command shares."""
sought = partial(routed, default="10", flag="--solver-time-limit", kind=search_limit)
"""For how long a schedule is sought for."""
link_rate = partial(ends, default=None, kind=rate_bps, help=(
    "the same for every link (default: the network's own rates, scaled down until the fastest link has 20Mbps, or less"
    " where testbed doctor --calibrate found that this machine carries less; 20Mbps if the network has none of its own)"
))  # fmt: skip


def nested(
    *,
    default_factory: type[T],
    prefix: str = "",
    group: str | None = None,
    only: tuple[Only, ...] = (),
) -> T:
    """A field that is itself of an options class, ``default_factory`` (a name that mypy reads): its options are the
    command's as well, flags behind ``prefix`` ("--nac-"), under the heading ``group``, with a meaning where ``only``
    holds too."""
    said = (default_factory, prefix, group, only)
    made: T = field(default_factory=default_factory, kw_only=True, metadata={"nested": said})
    return made


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(option, ends, sent, routed, coded, failing, running, nested),
)
def options(cls: type[T]) -> type[T]:
    """A frozen dataclass whose values are checked when it is built, before its own ``__post_init__``."""
    own: Callable[[T], None] | None = getattr(cls, "__post_init__", None)

    def checked(self: T) -> None:
        for one in fields(self):  # type: ignore[arg-type]
            if "option" in one.metadata:
                object.__setattr__(self, one.name, declared(one).checked(getattr(self, one.name)))
        if own is not None:
            own(self)

    setattr(cls, "__post_init__", checked)  # noqa: B010 - mypy knows no such name of a type
    return dataclass(frozen=True, kw_only=True)(cls)


def declared(one: dataclasses.Field[T]) -> Option:
    """The option of a field, its name and flag filled in."""
    said: Option = one.metadata["option"]
    flag = None if not said.listed else "" if said.positional else said.flag or flag_of(one.name)
    annotation = str(getattr(one.type, "__name__", one.type))
    return replace(said, name=one.name, flag=flag, annotation=annotation)


def flag_of(name: str) -> str:
    """The flag of a field: its name without the unit, which is said with the value.

    >>> [flag_of(name) for name in ("packet_bytes", "link_rate_bps", "warm_up_s", "block_symbols")]
    ['--packet-size', '--link-rate', '--warm-up', '--block-symbols']
    """
    return "--" + re.sub("_(bps|pps|s)$", "", re.sub("_bytes$", "_size", name)).replace("_", "-")


def with_default(said: str, default: object) -> str:
    """The help of an option, and its default where there is one that it does not say itself.

    >>> with_default("of the file", "4MB"), with_default("which (default all)", None), with_default("", 0.25)
    ('of the file (default 4MB)', 'which (default all)', 'default 0.25')
    """
    if default is None or default is False or default in (MISSING, "", (), []) or "default" in said:
        return said
    text = (
        "yes" if default is True else f"{default:g}" if isinstance(default, float) else str(default)
    )
    return f"{said} (default {text})" if said else f"default {text}"


def options_of(kind: type) -> tuple[Option, ...]:
    """The options of a class in the order of its fields; those of nested classes in their place, named
    ``nac.slack``."""
    return _options_of(kind)


@cache
def _options_of(kind: Any) -> tuple[Option, ...]:
    found: list[Option] = []
    for one in fields(kind):
        if "option" in one.metadata:
            found.append(declared(one))
        elif "nested" in one.metadata:
            inner, prefix, group, only = one.metadata["nested"]
            for each in options_of(inner):
                flag = prefix + each.flag.lstrip("-") if prefix and each.flag else each.flag
                own = replace(each, name=f"{one.name}.{each.name}", flag=flag)
                found.append(replace(own, group=each.group or group, only=(*only, *each.only)))
    return tuple(found)


def build(kind: type[T], given: Json) -> T:
    """An options class from the values of some of its options, by the names of ``options_of`` (or nested ones whole);
    presets fill what is not given.

    Raises InputError and UsageError as the class itself does.
    """
    values = dict(given)
    for one in options_of(kind):
        preset = one.presets.get(values.get(one.name, one.default), {}) if one.presets else {}
        values = {**preset, **values}
    return _built(kind, values, "")


def _built(kind: type[T], values: Json, within: str) -> T:
    own: JsonObject = {}
    for one in fields(kind):  # type: ignore[arg-type]
        name = within + one.name
        if name in values:
            own[one.name] = values[name]
        elif "nested" in one.metadata:
            own[one.name] = _built(one.metadata["nested"][0], values, f"{name}.")
    return kind(**own)
