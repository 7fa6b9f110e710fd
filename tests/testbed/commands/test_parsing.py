"""Sizes, rates, times and recordings are written one way for every command, and what is none is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testbed
from testbed.cli import main
from testbed.commands.parsing import OneLineParser
from testbed.errors import InputError
from testbed.model.naming.names import parse_captures
from testbed.model.options.kinds import (
    RATES,
    SIZES,
    rate_bps,
    search_limit,
    size_bytes,
    time_limit,
    times,
)
from testbed.scheduling.traffic.patterns import read_pattern
from topologies import load_network


def test_sizes_rates_and_times_are_read_as_people_write_them() -> None:
    sizes = {
        "1MB": 10**6,
        "500kB": 500_000,
        "64KiB": 65_536,
        "1000": 1000,
        "1.5m": 1_500_000,
        "2TB": 2 * 10**12,
        "1TiB": 2**40,
        "4e6": 4_000_000,
        "2 GiB": 2**31,
    }
    assert {text: size_bytes(text) for text in sizes} == sizes
    rates = {
        "20Mbps": 2e7,
        "20Mbit/s": 2e7,
        "1G": 1e9,
        "1e7": 1e7,
        "2e9": 2e9,
        "100 kbit": 1e5,
        "688e6": 688e6,
        "1T": 1e12,
        "2.5 Tbps": 2.5e12,
    }
    assert {text: rate_bps(text) for text in rates} == rates
    spans = {
        "2.5": 2.5,
        "250ms": 0.25,
        "3 us": 3e-6,
        "5min": 300.0,
        "1h": 3600.0,
        "0": 0.0,
        "1e-3": 1e-3,
    }
    seconds = times(0, 1e9)
    assert {text: seconds(text) for text in spans} == pytest.approx(spans)


@given(number=st.floats(1, 900), unit=st.sampled_from(sorted(SIZES)), capital=st.booleans())
def test_a_unit_multiplies_the_number_before_it(number: float, unit: str, capital: bool) -> None:
    text = f"{number!r}{unit}"
    size = text.upper() if capital else text.replace("b", "B")
    assert size_bytes(size) == round(number * SIZES[unit])
    rate_unit = sorted(RATES)[len(unit) % len(RATES)]
    assert rate_bps(f"{number!r}{rate_unit}") == number * RATES[rate_unit]


@pytest.mark.parametrize("text", ["1Mb", "1kb", "64Kib", "1Mbit", "1 mb", "5b"])
def test_bits_are_not_taken_for_bytes(text: str) -> None:
    with pytest.raises(InputError, match="b stands for bits, B for bytes"):
        size_bytes(text)


@pytest.mark.parametrize("text", ["", "x", "0", "-1", "nan", "inf", "1PB", "B", "1MB/s", "0.4"])
def test_text_that_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="give bytes, 1 to 1e\\+18, as in 1MB"):
        size_bytes(text)


@pytest.mark.parametrize("text", ["", "x", "0", "-1", "nan", "inf", "1001T", "1P", "1MB/s", "bps"])
def test_text_that_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="give bits a second"):
        rate_bps(text)


def test_text_that_is_no_time_is_refused() -> None:
    for text in ("", "x", "-1", "nan", "1d", "inf"):
        with pytest.raises(InputError, match="give seconds"):
            times(0, 1e9)(text)
    for read, text in (
        (time_limit, "0"),
        (search_limit, "0"),
        (search_limit, "inf"),
        (search_limit, "86401"),
    ):
        with pytest.raises(InputError, match="give seconds, more than 0 and at most"):
            read(text)
    assert time_limit("48h") == 172_800 and search_limit("24h") == 86_400


def test_recordings_name_a_link_and_a_file_in_a_directory_that_is_there(tmp_path: Path) -> None:
    network = load_network("swiss-t1")
    file = tmp_path / "a=b.pcap"
    assert parse_captures([f"s1->s2={file}"], network, named=True) == {("s1", "s2", 0): file}
    assert parse_captures(["s1->s2#0"], network, named=False) == {
        ("s1", "s2", 0): Path("s1-s2-0.pcap")
    }
    for word, says in (
        (f"s1->s2={tmp_path}/no/x", "no directory"),
        ("s1->s2", "LINK=FILE"),
        (f"s1->s9={file}", "no link"),
    ):
        with pytest.raises(InputError, match=says):
            parse_captures([word], network, named=True)


def test_pattern_that_cannot_be_read_says_what_to_give(tmp_path: Path) -> None:
    network, file = load_network("crossbar:4"), tmp_path / "pairs.json"
    for content, says in (
        (
            None,
            "cannot be read .No such file or directory.; give all-to-all, A:B,C:D or a file of pairs",
        ),
        ("{", "not JSON at line 1, column 2"),
        ('{"pairs": []}', "one pair or more"),
        ('[["t0", "r1"], ["t0", 7]]', "pair 1 is"),
        ('[["t0", "r9"]]', "r9"),
    ):
        if content is not None:
            file.write_text(content)
        with pytest.raises(ValueError, match=says) as caught:
            read_pattern(str(file), network)
        assert "\n" not in str(caught.value)
    file.write_text('\ufeff{"pairs": [["t0", "r1"]]}')
    assert read_pattern(str(file), network) == (("t0", "r1"),)


def test_help_is_written_alike_by_every_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 3.14 on argparse hands a colour to the parsers of commands, and paints where it may."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    parser = OneLineParser(prog="testbed", color=True)
    commands = parser.add_subparsers(parser_class=OneLineParser)
    assert "\x1b" not in parser.format_help() + commands.add_parser("route").format_help()


@pytest.mark.parametrize(
    "words",
    [
        ["stream", "ring:4", "--from", "s0", "--to", "s2", "--faults", ""],
        ["schedule", "ring:4", "--pattern="],
        ["topology", "show", "ring:4", "--plot", ""],
        ["up", "ring:4", "--name", ""],
    ],
)
def test_an_option_whose_value_is_empty_is_refused(
    words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    flag = next(
        word for word in words[2:] if word.startswith("--") and word not in ("--from", "--to")
    ).strip("=")
    assert main(words) == 2
    said = capfd.readouterr()
    assert (said.out, said.err.count("\n")) == (
        "",
        1,
    ) and f"argument {flag}: its value is empty" in said.err


def test_an_empty_name_of_a_file_is_refused() -> None:
    with pytest.raises(InputError, match="--faults: it is empty; give"):
        testbed.stream_plan("ring:4", "s0", "s2", faults="")


def test_a_workload_of_switches_alone_offers_no_simulator(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(["tunnel", "ring:4", "--between", "s0", "s2", "--fabric", "simulator"]) == 2
    assert "--fabric: invalid choice: 'simulator'" in capfd.readouterr().err
    main(["download", "--help"])
    assert "{emulation,simulator}" in capfd.readouterr().out


def test_quoted_values_in_refusals_break_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    parser = OneLineParser("x")
    with pytest.raises(SystemExit):
        parser.error("argument --plot: a\nb: give a name that ends in .svg")
    assert capsys.readouterr().err.count("\n") == 1
