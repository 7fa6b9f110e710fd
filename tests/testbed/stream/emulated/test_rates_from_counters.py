"""Coded packets a second from interface counters that count loss reports as well."""

from __future__ import annotations

import pytest

from testbed.stream.emulated.link_loads import LinkCounts, measured_rates

A, B, C = ("a", "b", 0), ("b", "a", 0), ("b", "c", 0)


def counted(at_s: float, **packets: tuple[int, int]) -> LinkCounts:
    """(coded packets of 1066 bytes, reports of 150 bytes) on each link."""
    links = {"a": A, "b": B, "c": C}
    sent = {links[name]: (k + r, 1066 * k + 150 * r) for name, (k, r) in packets.items()}
    return LinkCounts(at_s=at_s, sent=sent)


def test_reports_are_told_from_coded_packets_by_their_size() -> None:
    samples = [
        counted(0.5, a=(0, 0), b=(0, 0), c=(0, 0)),
        counted(1.0, a=(100, 10), b=(0, 20), c=(7, 0)),
        counted(3.0, a=(500, 90), b=(0, 100), c=(7, 0)),
        counted(9.0, a=(5000, 900), b=(0, 1000), c=(70, 0)),
    ]
    rates = measured_rates(samples, (0.9, 3.1), 1000, [B])
    assert rates == {A: pytest.approx(200), B: pytest.approx(0), C: pytest.approx(0)}


def test_without_a_link_for_reports_alone_all_bytes_are_coded_packets() -> None:
    samples = [counted(0.0, a=(0, 0)), counted(2.0, a=(300, 0))]
    assert measured_rates(samples, (0, 2), 1000, []) == {A: pytest.approx(150)}
