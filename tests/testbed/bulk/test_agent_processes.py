"""Processes at the ends of a bulk run: orders reach them, reports come back, and their deaths and failures are told
apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection

import pytest

from testbed.bulk.coordinator import Send
from testbed.bulk.emulated.agent_process import AgentProcess, process_groups
from testbed.bulk.emulated.run import retransmitted_since
from testbed.bulk.measurements import TcpRetransmissions
from testbed.bulk.messages import Count, Counted, MessageDone, Ready
from testbed.errors import CapabilityError


@contextmanager
def started(run: Callable[[Connection], None]) -> Iterator[AgentProcess]:
    with closing(AgentProcess("receiver", ["r0", "r1"], run)) as process:
        yield process


def answering(port: Connection) -> None:
    port.send(Ready())
    while True:
        order = port.recv()
        if isinstance(order, Send):
            for number, attempt in order.messages:
                port.send(MessageDone(transfer=number, attempt=attempt, intact=True, at_s=0.0))
        else:
            port.send(Counted(counts=((1, 1), (2, 0))))


def fail(port: Connection) -> None:
    raise ValueError("no room")


def wait(port: Connection) -> None:
    port.recv()


def test_orders_are_carried_out_and_reported_in_their_order() -> None:
    with started(answering) as process:
        assert process.receive() == Ready() and not process.has_report
        process.order(Send(messages=((7, 1), (8, 2))))
        process.order(Count())
        first, second, third = (process.receive() for _ in range(3))
        assert isinstance(first, MessageDone) and (first.transfer, first.attempt) == (7, 1)
        assert isinstance(second, MessageDone) and (second.transfer, second.attempt) == (8, 2)
        assert third == Counted(counts=((1, 1), (2, 0)))


def test_a_process_that_was_killed_is_gone_after_what_it_had_reported() -> None:
    with started(answering) as process:
        process.receive()
        process.order(Send(messages=((7, 1),)))
        while not process.has_report:
            pass
        process.kill()
        assert isinstance(process.receive(), MessageDone)
        with pytest.raises(EOFError):
            process.receive()
        process.order(Count())  # nobody is there, and that is found when it is read


def test_a_process_that_fails_says_why() -> None:
    with (
        started(fail) as process,
        pytest.raises(
            CapabilityError, match="the receiver of bulk transfers failed: ValueError: no room"
        ),
    ):
        process.receive()


def test_a_process_that_is_silent_is_given_up() -> None:
    with started(wait) as process:
        assert not process.has_report
        with pytest.raises(CapabilityError, match=r"no response within 0\.05 s"):
            process.receive(0.05)


def test_a_node_whose_process_is_killed_shares_it_with_nobody() -> None:
    assert process_groups(["a", "b", "c"], []) == [("a", "b", "c")]
    assert process_groups(["a", "b", "c"], ["b", "b"]) == [("a", "c"), ("b",)]
    assert process_groups(["a"], ["a"]) == [("a",)]


def test_retransmissions_count_from_the_start_and_are_never_negative() -> None:
    before = {0: TcpRetransmissions(100, 2, 1), 1: TcpRetransmissions(50, 1, 1)}
    after = {
        0: TcpRetransmissions(400, 5, 3),
        1: TcpRetransmissions(20, 1, 0),
        2: TcpRetransmissions(30, 1, 0),
    }
    assert retransmitted_since(before, after) == {0: (300, 3, 2), 1: (0, 0, 0), 2: (30, 1, 0)}
