"""A run's health tells of datagrams that the stream's other end did not send."""

from __future__ import annotations

from testbed.stream.endpoints import foreign_notes


def test_datagrams_of_others_are_told() -> None:
    assert foreign_notes({"foreign": 0, "sent_foreign": 0}) == foreign_notes({}) == ()
    (foreign,) = foreign_notes({"foreign": 2, "sent_foreign": 1})
    assert foreign.startswith("3 datagrams came from other addresses")
    (forged,) = foreign_notes({"rejected_key": 7})
    assert forged.startswith("7 packets were not sealed with the stream's key")
