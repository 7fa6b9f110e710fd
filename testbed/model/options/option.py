"""Declaration of options: fields of an options class.

The command line, the library and the readers of files all use the same declarations.

    @options
    class DownloadOptions:
        network: NetworkLike = option(positional=True, metavar="NETWORK", help="name or file")
        file_bytes: int = option(default="4MB", kind=kinds.size_bytes, help="size of the file")

Values are checked by their kinds and choices whenever an options class is built.
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

# The package of networks is slow to import, and help pages do not need it.
if TYPE_CHECKING:
    from topologies.text.json_types import Json, JsonObject

T = TypeVar("T")

# Headings of help pages that all commands share. Other headings follow these.
ENDS = "network and end points"
SENT = "what is sent"
ROUTED = "routing and schedule"
CODE = "code"
FAULTS = "faults"
RUN = "the run"
GROUPS = (ENDS, SENT, ROUTED, CODE, FAULTS, RUN)

# Annotations whose values are checked here, with the accepted types and what to give.
_SIMPLE: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "str": (str, "a text"),
    "bool": (bool, "True or False"),
}


@dataclass(frozen=True, kw_only=True)
class Only:
    """A condition under which an option has an effect.

    Attributes:
        when: Returns whether the condition holds, given the values of all options.
        needs: The condition for people, such as "--access strided".
    """

    when: Callable[[Namespace], bool]
    needs: str


def _makes_a_run(arguments: Namespace) -> bool:
    return (
        getattr(arguments, "fabric", None) != "none"
        and not getattr(arguments, "list", False)
        and not getattr(arguments, "book", False)
    )


RUNNING = Only(when=_makes_a_run, needs="a run (--list, --report-only and --fabric none make none)")


@dataclass(frozen=True, kw_only=True)
class Option:
    """The declaration of an option.

    Attributes:
        name: Name of the argument in the library. A nested option has a dot: "nac.slack".
        flag: Flag of the command. None in a declaration means the flag of ``flag_of``. In
            ``declared`` options, "" is a positional argument, and None is an option that the
            command does not have.
        positional: Whether the command takes the option without a flag.
        listed: Whether the command has the option.
        short: Short flags.
        default: The default value.
        shown: The default as it is written in its unit, or None.
        kind: The kind of number, or None.
        choices: The accepted values, or a function that returns them. Empty: any value.
        group: Heading on the help page.
        metavar: Stands for the value on the help page.
        help: Text of the help page.
        only: Conditions under which the option has an effect.
        switches_only: Whether the simulator cannot carry the option out, or a function that
            returns this for a value.
        many: Whether the option may be given several times. Its value is a tuple.
        negated: Whether a bool that is False by default has a flag --no-... too.
        trailing: Whether the option takes the rest of the command line.
        presets: Values of other options for each value of this one. They apply if those options
            are not given.
        annotation: The annotation of the field.
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
        """True if the option has no default."""
        return self.default is MISSING

    @property
    def words(self) -> str:
        """The help text with the default."""
        default = self.default
        if self.negated and self.default is False:
            default = "no"
        elif self.shown is not None:
            default = self.shown
        return with_default(self.help.replace("{default}", str(default)), default)

    def checked(self, value: object) -> object:
        """Return the value, with Python's types instead of those of numpy.

        Raises:
            UsageError: The value is not of the field's type.
            InputError: The value is beyond the bounds, or none of the choices.
        """
        if hasattr(value, "tolist"):
            value = value.tolist()
        if self.metavar == "NODE":
            value = _node_names(value, self.annotation)
        if value is None and (self.default is None or "None" in self.annotation):
            return None
        if self.annotation.startswith("tuple[str, ...") and isinstance(value, str):
            raise UsageError(f"{self.name}: got the text {value[:60]!r}; give a list of texts")
        if self.many and isinstance(value, Sequence):
            for item in value:
                self._check(item)
        else:
            self._check(value)
        return value

    def _check(self, value: object) -> None:
        """Raise an error if the value, or one of several, is not accepted."""
        simple = _SIMPLE.get(self.annotation.partition(" ")[0])
        if self.kind is not None:
            self.kind.checked(value, self.name)
        elif simple is not None:
            types, expected = simple
            require_type(value, types, self.name, expected)
        choices = self.choices() if callable(self.choices) else self.choices
        if choices and value not in choices:
            # The package of networks is slow to import, and help pages do not need it.
            from topologies.errors import nearest

            suggestion = nearest(str(value), choices, "choose from ", len(choices))
            raise InputError(f"{self.name} {value!r}: {suggestion}")


def _node_names(value: object, annotation: str) -> object:
    """Return the ids of nodes that may be numbers or tuples, as in a networkx graph."""
    # The package of networks is slow to import, and help pages do not need it.
    from topologies.network import node_name

    if annotation == "str":
        return node_name(value)
    if isinstance(value, (list, tuple)):
        return tuple(map(node_name, value))
    return value


def option(
    *, default: object = MISSING, kw_only: bool = True, kind: Kind | None = None, **attributes: Any
) -> Any:
    """Return a field of an options class.

    Args:
        default: The default value. If there is a ``kind``, it may be a text with its unit: "4MB".
        kw_only: Whether the library accepts the argument by name only. (With ``positional``, the
            command accepts it without a flag.)
        kind: The kind of number, or None.
        **attributes: The other attributes of ``Option``.
    """
    value = default
    shown = None
    if isinstance(default, str) and kind is not None:
        value = kind(default)
        shown = default
    if kind is not None:
        attributes.setdefault("metavar", kind.metavar)
    declaration = Option(default=value, shown=shown, kind=kind, **attributes)
    return field(default=value, kw_only=kw_only, metadata={"option": declaration})


# Options under the headings that all commands share.
ends = partial(option, group=ENDS)
sent = partial(option, group=SENT)
routed = partial(option, group=ROUTED)
coded = partial(option, group=CODE)
failing = partial(option, group=FAULTS)
running = partial(option, group=RUN)

# How long a schedule is searched for.
sought = partial(routed, default="10", flag="--solver-time-limit", kind=search_limit)
link_rate = partial(
    ends,
    default=None,
    kind=rate_bps,
    help=(
        "rate of every link (default: the network's rates, scaled so that the fastest link has "
        "20Mbps, or less if testbed doctor --calibrate measured that this machine supports "
        "less; 20Mbps if the network has no rates)"
    ),
)


def nested(
    *,
    default_factory: type[T],
    prefix: str = "",
    group: str | None = None,
    only: tuple[Only, ...] = (),
) -> T:
    """Return a field whose value is of another options class. Its options are the command's too.

    Args:
        default_factory: The other options class. (mypy requires this name.)
        prefix: Begins the flags of its options, such as "--nac-".
        group: Heading of the options that have none.
        only: Further conditions of all its options.
    """
    declaration = _Nested(kind=default_factory, prefix=prefix, group=group, only=only)
    nested_field: T = field(
        default_factory=default_factory, kw_only=True, metadata={"nested": declaration}
    )
    return nested_field


@dataclass(frozen=True, kw_only=True)
class _Nested:
    """The declaration of a nested options class; see ``nested``."""

    kind: type
    prefix: str
    group: str | None
    only: tuple[Only, ...]


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(option, ends, sent, routed, coded, failing, running, nested),
)
def options(cls: type[T]) -> type[T]:
    """Return the class as a frozen dataclass that checks its values before ``__post_init__``."""
    class_post_init: Callable[[T], None] | None = getattr(cls, "__post_init__", None)

    def check_values(self: T) -> None:
        for option_field in fields(self):  # type: ignore[arg-type]
            if "option" in option_field.metadata:
                value = getattr(self, option_field.name)
                checked_value = declared(option_field).checked(value)
                # The class is frozen, so an ordinary assignment would fail.
                object.__setattr__(self, option_field.name, checked_value)
        if class_post_init is not None:
            class_post_init(self)

    setattr(cls, "__post_init__", check_values)  # noqa: B010 - mypy knows no such name of a type
    return dataclass(frozen=True, kw_only=True)(cls)


def declared(option_field: dataclasses.Field[T]) -> Option:
    """Return the option of a field, with its name, flag and annotation."""
    declaration: Option = option_field.metadata["option"]
    if not declaration.listed:
        flag = None
    elif declaration.positional:
        flag = ""
    else:
        flag = declaration.flag or flag_of(option_field.name)
    annotation = str(getattr(option_field.type, "__name__", option_field.type))
    return replace(declaration, name=option_field.name, flag=flag, annotation=annotation)


def flag_of(name: str) -> str:
    """Return the flag of a field: its name without the unit, which is given with the value.

    >>> [flag_of(name) for name in ("packet_bytes", "link_rate_bps", "warm_up_s", "block_symbols")]
    ['--packet-size', '--link-rate', '--warm-up', '--block-symbols']
    """
    name = re.sub("_bytes$", "_size", name)
    name = re.sub("_(bps|pps|s)$", "", name)
    return "--" + name.replace("_", "-")


def with_default(help_text: str, default: object) -> str:
    """Return the help of an option with its default, unless there is none or the help contains it.

    Args:
        help_text: The help.
        default: The default.

    >>> with_default("size of the file", "4MB"), with_default("hosts (default: all)", None)
    ('size of the file (default: 4MB)', 'hosts (default: all)')
    >>> with_default("", 0.25)
    'default: 0.25'
    """
    if (
        default is None
        or default is False
        or default in (MISSING, "", (), [])
        or "default" in help_text
    ):
        return help_text
    if default is True:
        text = "yes"
    elif isinstance(default, float):
        text = f"{default:g}"
    else:
        text = str(default)
    return f"{help_text} (default: {text})" if help_text else f"default: {text}"


def options_of(kind: type) -> tuple[Option, ...]:
    """Return the options of a class in the order of its fields.

    Those of nested classes are included, with names such as ``nac.slack``.
    """
    return _options_of(kind)


@cache
def _options_of(kind: Any) -> tuple[Option, ...]:
    options_in_order: list[Option] = []
    for option_field in fields(kind):
        if "option" in option_field.metadata:
            options_in_order.append(declared(option_field))
        elif "nested" in option_field.metadata:
            options_in_order += _nested_options(option_field)
    return tuple(options_in_order)


def _nested_options(nested_field: dataclasses.Field[Any]) -> list[Option]:
    """Return the options of a nested class as options of the outer one."""
    declaration: _Nested = nested_field.metadata["nested"]
    outer_options = []
    for inner in options_of(declaration.kind):
        flag = inner.flag
        if declaration.prefix and flag:
            flag = declaration.prefix + flag.lstrip("-")
        outer = replace(
            inner,
            name=f"{nested_field.name}.{inner.name}",
            flag=flag,
            group=inner.group or declaration.group,
            only=(*declaration.only, *inner.only),
        )
        outer_options.append(outer)
    return outer_options


def build(kind: type[T], values: Json) -> T:
    """Return an options class with these values.

    Args:
        kind: The options class.
        values: Values of some options by the names of ``options_of``, or values of nested classes
            by the name of their field. Presets apply to options that are not given.

    Raises:
        InputError: A value is not accepted.
        UsageError: A value is of the wrong type.
    """
    for option_declaration in options_of(kind):
        if option_declaration.presets:
            value = values.get(option_declaration.name, option_declaration.default)
            values = {**option_declaration.presets.get(value, {}), **values}
    return _built(kind, values, "")


def _built(kind: type[T], values: Json, prefix: str) -> T:
    """Build an options class from values whose names begin with the prefix, such as "nac."."""
    field_values: JsonObject = {}
    for option_field in fields(kind):  # type: ignore[arg-type]
        name = prefix + option_field.name
        if name in values:
            field_values[option_field.name] = values[name]
        elif "nested" in option_field.metadata:
            declaration: _Nested = option_field.metadata["nested"]
            field_values[option_field.name] = _built(declaration.kind, values, f"{name}.")
    return kind(**field_values)
