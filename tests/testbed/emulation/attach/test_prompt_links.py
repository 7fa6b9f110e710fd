"""Links in lines at the prompt: names with spaces and signs, a shell's quotes, comments, files and manners behind
them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.emulation.attach.prompt_words import (
    described_network,
    first_link,
    is_manner,
    links_of_line,
)
from testbed.errors import InputError
from topologies.network import label_of

IDS = ("New York", "San José", "a->b", "c", "c down", "#1", "Zürich #2")
LINKS = [(a, b, key) for a in IDS for b in IDS if a != b for key in (0, 1)]
NETWORK = described_network({"network": "cities", "links": LINKS})


@pytest.mark.parametrize(
    ("line", "link", "words"),
    [
        ("New York->San José", "New York->San José", []),
        ("New York -> San José loss 0.2 # half", "New York->San José", ["loss", "0.2"]),
        ('"New York"->"San José"#1 down one-way', "New York->San José#1", ["down", "one-way"]),
        ("'New York->San José' blackhole", "New York->San José", ["blackhole"]),
        ('"New York->San José" blackhole', "New York->San José", ["blackhole"]),
        ("New\\ York->San\\ José blackhole", "New York->San José", ["blackhole"]),
        ('"a->b"->c loss:0.1', '"a->b"->c', ["loss:0.1"]),
        ("a->b->New York loss 7", '"a->b"->New York', ["loss", "7"]),
        ("c->Zürich #2 delay:1,jitter=0.1 # slow", 'c->"Zürich #2"', ["delay:1,jitter=0.1"]),
        ("New York->c down blackhole", "New York->c down", ["blackhole"]),
        ("nosuch->c down", "nosuch->c", ["down"]),
        ("c->New York@1-2", "c->New", ["York@1-2"]),
        ("", "", []),
        ("# nothing", "", []),
    ],
)
def test_a_link_and_its_manner(line: str, link: str, words: list[str]) -> None:
    assert first_link(line, NETWORK, is_manner) == (link, words)


def test_a_line_with_two_meanings_is_refused() -> None:
    with pytest.raises(InputError, match='write "New York"->"c" or "New York"->"c down"'):
        first_link("New York->c down", NETWORK, is_manner)


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("New York->San José a.pcap", "a.pcap"),
        ("New York->San José 'my file.pcap' # tonight", "my file.pcap"),
        ("'New York->San José' \"my file.pcap\"", "my file.pcap"),
    ],
)
def test_a_link_and_a_file(line: str, file: str) -> None:
    assert first_link(line, NETWORK, lambda _, words: len(words) == 1) == (
        "New York->San José",
        [file],
    )


@pytest.mark.parametrize(
    ("line", "links"),
    [
        ("New York->San José", ["New York->San José"]),
        ("New York->San José c->a->b#1 # both", ["New York->San José", 'c->"a->b"#1']),
        ("c->Zürich #2 New York -> c", ['c->"Zürich #2"', "New York->c"]),
        ("'New York->c' nosuch # comment", ["New York->c", "nosuch"]),
        ("all", ["all"]),
        ("", []),
    ],
)
def test_links_to_be_restored(line: str, links: list[str]) -> None:
    assert links_of_line(line, NETWORK) == links


@given(
    links=st.lists(st.sampled_from(LINKS), min_size=1, max_size=5),
    manner=st.sampled_from(["loss 0.5", "blackhole"]),
)
def test_labels_are_read_back(links: list[tuple[str, str, int]], manner: str) -> None:
    labels = [label_of(link) for link in links]
    assert links_of_line(" ".join(labels), NETWORK) == labels
    assert first_link(f"{labels[0]} {manner}", NETWORK, is_manner) == (labels[0], manner.split())
