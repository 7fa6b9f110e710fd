"""Options under the spellings that they had in 0.2: taken until 0.4, each with one line on stderr that says the present
one."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping, Sequence

from testbed.errors import InputError
from testbed.report.streams import complain

Former = Mapping[str, tuple[str, str]]
"""Former flag -> the present one, and how its value is written now: "" as before, "{}ms" in this way, "after=later never"
one of these words (or, after "=", without it)."""


def present_words(words: Sequence[str], former: Former, known: Container[str]) -> list[str]:
    """The words of a command line with every former spelling replaced, and said. ``known``: the options of its parser.

    What follows ``--`` stays. Raises InputError for what has no present form.
    """
    end = words.index("--") if "--" in words else len(words)
    table = {**former, **(_by_rate_unit(words[:end]) if "--loads" in known else {})}
    found: list[str] = []
    left = iter(words[:end])
    for word in left:
        found += _present(word, left, table, known)
    return [*found, *words[end:]]


def _present(word: str, left: Iterator[str], table: Former, known: Container[str]) -> list[str]:
    """What stands for the word, and for those of ``left`` that are its values."""
    option, equals, value = word.partition("=")
    no = "--no-" if option.startswith("--no-") and option not in table else ""
    name, how = table.get(option.replace("--no-", "--", 1) if no else option, ("", ""))
    name = name.replace("--", no or "--", 1)
    if not name or (option in known and (not how or "{}" in how)) or name not in known:
        return [word]
    if not how:
        _said(option, [name])
        return [name + equals + value]
    if "{}" in how:
        values = [value] if equals else [one for _, one in zip(range(how.count("{}")), left, strict=False)]
        if len(values) < how.count("{}"):
            return [name]
        return _said(" ".join((option, *values)), [name, how.format(*values)])
    given = value if equals else next(left, "")
    now = {old: new if same else old for old, same, new in (one.partition("=") for one in how.split())}
    if given not in now:
        return [word] if equals else [word, *([given] if given else [])]
    return _said(f"{option} {given}", [name, now[given]] if now[given] else [])


def _said(former: str, present: list[str]) -> list[str]:
    if "TESTBED_SANDBOX" not in os.environ:  # there the same command line is read a second time
        complain(f"{former} is now {' '.join(present)}" if present else f"{former} is no longer needed")
    return present


def _by_rate_unit(words: Sequence[str]) -> Former:
    """What --rate and --rate-unit of ``simulate`` stand for: a fraction of a link and packets a second are two options
    now."""
    said = {word.partition("=")[0] for word in words}
    if "--rate-unit" not in said:
        return {}
    counted = any("packets/s" in word for word in words)
    if counted and said & {"--rates", "--loads"}:
        raise InputError("--rate-unit packets/s with --rates: give --loads A:B:STEP, fractions of a link")
    rate = {"--rate": ("--packet-rate", "")} if counted else {}
    return {**rate, "--rate-unit": ("--load", "fraction= packets/s=")}
