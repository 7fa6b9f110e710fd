"""YAML whose scalars are all text, as programs in Go read it: ``no``, ``010`` and ``007`` are words; nothing is made of
tags.

Aliases share what they stand for, but are counted as if they were written out: a few lines cannot stand for millions of
values.
"""

from typing import Any

from topologies.errors import TopologyError

MAX_BYTES = 2**22
MAX_VALUES = 200_000
"""Values of a document with its aliases written out."""
_DEPTH = 100
_MERGE = "<<"


class _Open:
    """A list or table that is being read: its value, how many values are in it, and a table's key that waits for its
    value."""

    def __init__(self, value: Any, anchor: str | None) -> None:
        self.value, self.anchor, self.size = value, anchor, 1
        self.key: str | None = None
        self.given: set[str] = set()

    def take(self, value: Any, size: int, line: int) -> None:
        """The next entry, or the next key or its value."""
        self.size += size
        if self.size > MAX_VALUES:
            raise TopologyError(
                f"line {line}: with its aliases it stands for more than {MAX_VALUES} values; write less"
            )
        if isinstance(self.value, list):
            self.value.append(value)
        elif self.key is None:
            if not isinstance(value, str) and value is not None:
                raise TopologyError(
                    f"line {line}: a key must be text (fill in what {{{{ }}}} of a template stands for)"
                )
            self.key = value or ""
            if self.key in self.given:
                raise TopologyError(f"line {line}: the key {self.key[:60]!r} is there twice; keep one")
            self.given.add(self.key)
        else:
            self._set(self.key, value)
            self.key = None

    def _set(self, key: str, value: Any) -> None:
        if key != _MERGE:
            self.value[key] = value
            return
        for table in value if isinstance(value, list) else [value]:
            for name, inside in table.items() if isinstance(table, dict) else ():
                self.value.setdefault(name, inside)


def parse_yaml(text: str) -> Any:
    """The value of a YAML document: tables, lists, text, and None for null and nothing. Merge keys (``<<``) are obeyed.

    Raises TopologyError, which names the line; ModuleNotFoundError where PyYAML (the extra ``networks``) is not
    installed.
    """
    import yaml  # type: ignore[import-untyped,unused-ignore]

    if len(text) > MAX_BYTES:
        raise TopologyError(f"it is longer than {MAX_BYTES} signs; make it smaller")
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    root = _Open([], None)
    inside = [root]
    anchors: dict[str | None, tuple[Any, int]] = {}  # None: of all that have no name, for which no alias stands
    try:
        for event in yaml.parse(text, Loader=loader):
            kind, line = type(event).__name__, event.start_mark.line + 1
            if kind in ("MappingStartEvent", "SequenceStartEvent"):
                if len(inside) > _DEPTH:
                    raise TopologyError(f"line {line}: more than {_DEPTH} lists and tables in each other")
                inside.append(_Open({} if kind.startswith("Map") else [], event.anchor))
            elif kind in ("MappingEndEvent", "SequenceEndEvent"):
                done = inside.pop()
                anchors[done.anchor] = (done.value, done.size)
                inside[-1].take(done.value, done.size, line)
            elif kind == "ScalarEvent":
                value = None if event.implicit[0] and event.value in ("", "~", "null", "Null", "NULL") else event.value
                anchors[event.anchor] = (value, 1)
                inside[-1].take(value, 1, line)
            elif kind == "AliasEvent":
                if event.anchor not in anchors:
                    raise TopologyError(f"line {line}: the alias {event.anchor[:60]!r} stands for nothing before it")
                inside[-1].take(*anchors[event.anchor], line)
    except yaml.YAMLError as error:
        raise TopologyError(f"not YAML ({' '.join(str(error).split())[:120]})") from error
    if len(root.value) != 1:
        raise TopologyError(f"{len(root.value)} YAML documents; leave exactly one")
    return root.value[0]
