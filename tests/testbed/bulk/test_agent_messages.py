"""Orders and reports between a bulk run and its processes: what is encoded is decoded, and nothing else is believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.bulk.messages import (
    MAX_ATTEMPTS,
    AgentFailed,
    ConnectionBroke,
    Count,
    Delivered,
    MessageDone,
    MessageError,
    Order,
    Ready,
    Report,
    Retransmitted,
    SendMessages,
    decode,
    encode,
)
from testbed.errors import InputError

U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
ATTEMPTS = st.integers(1, MAX_ATTEMPTS)
MESSAGES = st.one_of(
    st.sampled_from([Count(), Ready()]),
    st.builds(SendMessages, messages=st.lists(st.tuples(U32, ATTEMPTS)).map(tuple)),
    st.builds(MessageDone, transfer=U32, attempt=ATTEMPTS, intact=st.booleans(), at_s=st.floats(allow_nan=False)),
    st.builds(ConnectionBroke, transfer=U32, attempt=ATTEMPTS),
    st.builds(Retransmitted, counts=st.lists(st.tuples(U32, U64, U64, U64)).map(tuple)),
    st.builds(Delivered, counts=st.lists(st.tuples(U32, U32)).map(tuple)),
    st.builds(AgentFailed, reason=st.text()),
)


@given(MESSAGES)
def test_every_message_is_read_as_it_was_meant(message: Order | Report) -> None:
    assert decode(encode(message)) == message


@given(MESSAGES, MESSAGES)
def test_different_messages_are_different_bytes(one: Order | Report, other: Order | Report) -> None:
    assert (encode(one) == encode(other)) == (one == other)


@given(st.binary(max_size=40))
def test_bytes_that_nobody_encoded_are_refused_or_are_a_message(data: bytes) -> None:
    try:
        message = decode(data)
    except MessageError:
        return
    assert decode(encode(message)) == message or message != message, "a NaN is not itself"


@pytest.mark.parametrize(
    "message",
    [Ready(), ConnectionBroke(transfer=7, attempt=1), MessageDone(transfer=1, attempt=1, intact=True, at_s=0.5)],
)
def test_a_message_that_is_cut_off_or_too_long_is_refused(message: Order | Report) -> None:
    data = encode(message)
    for wrong in (data + b"\0", data[:-1]):
        with pytest.raises(MessageError):
            decode(wrong)


def test_rows_that_break_off_are_refused() -> None:
    data = encode(SendMessages(messages=((3, 1), (4, 2))))
    assert decode(data[:-5]) == SendMessages(messages=((3, 1),))
    with pytest.raises(MessageError, match="SendMessages"):
        decode(data[:-1])


def test_a_number_without_room_is_refused_where_it_is_written() -> None:
    with pytest.raises(InputError, match="attempt=256"):
        encode(ConnectionBroke(transfer=1, attempt=256))
