"""What steers a terminal, turns the direction of writing or cannot be seen is written out; all else stays."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.model.naming.printable import LAYOUT, printable

HOSTILE = [
    chr(n)
    for n in (
        *range(0x20),
        *range(0x7F, 0xA0),
        0xAD,
        0x34F,
        0x61C,
        0x115F,
        0x180E,
        0x3164,
        0xFEFF,
        0xFE0F,
    )
]
HOSTILE += [
    chr(n)
    for n in (
        *range(0x200B, 0x2010),
        *range(0x2028, 0x202F),
        *range(0x2060, 0x2070),
        0xD800,
        0xE0001,
    )
]


@pytest.mark.parametrize("one", HOSTILE, ids=lambda one: f"U+{ord(one):04X}")
def test_no_such_character_is_left(one: str) -> None:
    shown = printable(f"a{one}b")
    assert one not in shown and shown.isascii() and shown.startswith("a\\") and shown.endswith("b")


@pytest.mark.parametrize(
    "text", ["h1", "São Paulo", "Zürich", "東京", "القاهرة", "日本　東", "a\xa0b", "\\x1b", "✓ ± →"]
)
def test_names_of_people_stay(text: str) -> None:
    assert printable(text) == text


@given(st.text(st.characters(), max_size=40))
def test_always_printable_and_only_once(text: str) -> None:
    shown = printable(text)
    assert not any(unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp") for one in shown)
    assert printable(shown) == shown
    assert printable(text, LAYOUT).replace("\n", "\\n").replace("\t", "\\t") == shown


@given(st.text(st.characters(), max_size=40))
def test_json_that_was_made_printable_is_the_same_json(text: str) -> None:
    document = json.dumps([text], ensure_ascii=False)
    assert json.loads(printable(document)) == [text]
