"""What requests do to subfiles in memory, without a stream: each kind, its answer, what is refused."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from sfio_emu import message_bodies, wire
from sfio_emu.listener.operations import Operations
from sfio_emu.listener.ports import Answer, CallFailed
from sfio_emu.listener.reader import BufferPool, Request
from sfio_emu.message_bodies import OpenFlag
from sfio_emu.settings import CALLS
from sfio_emu.wire import Header, Kind, Malformed
from tests.helpers.memory_files import MemoryFiles

LIMIT_BYTES = 1 << 16


class Client:
    """Operations on files in memory, one of them open with handle 1."""

    def __init__(self, full_at: int = 2**62) -> None:
        self.files = MemoryFiles(full_at)
        self.operations = Operations(self.files, BufferPool(1 << 20, LIMIT_BYTES), sieve=True)
        self.ask(Kind.OPEN, message_bodies.encode_open("a"))

    @property
    def content(self) -> bytes:
        return bytes(self.files.files[10])

    def ask(
        self, kind: int, body: bytes = b"", data: bytes = b"", *, checked: bool = False
    ) -> Answer:
        header = Header(
            kind=kind,
            sequence=1,
            body_bytes=len(body),
            data_bytes=len(data),
            body_check=0,
            checked=checked,
        )
        buffer = memoryview(bytearray(LIMIT_BYTES))
        return self.operations.execute(
            Request(header=header, body=memoryview(body), data=memoryview(data), buffer=buffer)
        )


def runs(*items: tuple[int, int, int]) -> bytes:
    handles, sizes, offsets = zip(*items, strict=True)
    return wire.encode_runs(handles, offsets, sizes)


def test_runs_are_written_and_read_and_counted() -> None:
    client = Client()
    answer = client.ask(Kind.WRITE, runs((1, 3, 0), (1, 2, 10)), b"abcde")
    assert message_bodies.decode_written(memoryview(answer.body), 1) == (5, 2, (0,), (0,))
    assert client.content == b"abc" + bytes(7) + b"de"
    answer = client.ask(Kind.READ, runs((1, 2, 10), (1, 5, 1)))
    assert bytes(answer.data) == b"debc" + bytes(3)
    assert wire.decode_counts(memoryview(answer.body), 2)[1].cast("I").tolist() == [2, 5]


def test_empty_run_extends_a_subfile_to_its_offset_and_never_shortens_it() -> None:
    client = Client()
    client.ask(Kind.WRITE, runs((1, 0, 50)))
    client.ask(Kind.WRITE, runs((1, 0, 20)))
    assert client.content == bytes(50)


def test_write_returns_the_previous_lengths_of_subfiles_in_their_order() -> None:
    client = Client()
    client.ask(Kind.OPEN, message_bodies.encode_open("b"))
    client.ask(Kind.WRITE, runs((1, 3, 10), (2, 1, 20)), b"abcd")
    answer = client.ask(Kind.WRITE, runs((2, 1, 30), (1, 1, 0), (2, 0, 50)), b"xy")
    assert message_bodies.decode_written(memoryview(answer.body), 2).sizes == (21, 13)


def test_a_failed_call_is_answered_with_its_name_and_the_bytes_done() -> None:
    client = Client(full_at=100)
    body = client.ask(Kind.WRITE, runs((1, 50, 0), (1, 50, 80)), bytes(100)).body
    number, call, handle, done_bytes = message_bodies.FAILURE.unpack(body)
    assert (number, CALLS[call], handle, done_bytes) == (errno.ENOSPC, "write", 1, 50)
    answer = client.ask(Kind.OPEN, message_bodies.encode_open("missing", OpenFlag(0)))
    assert (answer.kind, message_bodies.FAILURE.unpack(answer.body)[:2]) == (
        Kind.FAILED,
        (errno.ENOENT, CALLS.index("open")),
    )


@pytest.mark.parametrize(
    ("kind", "body", "data", "why"),
    [
        (Kind.WRITE, runs((1, 3, 0)), b"ab", "do not add up"),
        (Kind.WRITE, runs((9, 2, 0)), b"ab", "handle 9 is not open"),
        (Kind.READ, runs((1, 9000, 0)) * 8, b"", "more than fits into a message"),
        (
            Kind.READ,
            runs((1, 0xFFFFFFFF, 0)) * 2,
            b"",
            "a read of 8589934590 bytes in 2 runs, more than fits into a message",
        ),
        (Kind.READ, b"short", b"", "a list of runs of 5 bytes"),
        (Kind.SIZE, b"", b"", "a body of 0 bytes where 4 are expected"),
        (Kind.CREATE, b"a", b"data", "no listener accepts"),
        (Kind.DONE, b"", b"", "no listener accepts"),
        (Kind.OPEN, b"", b"", "an open without a path"),
    ],
)
def test_requests_that_make_no_sense_are_refused_and_change_nothing(
    kind: Kind, body: bytes, data: bytes, why: str
) -> None:
    client = Client()
    with pytest.raises(Malformed, match=why) as caught:
        client.ask(kind, body, data)
    assert not caught.value.fatal
    assert client.content == b"" and client.files.calls == []


def test_an_answer_to_a_write_tells_the_truncations_of_its_subfile() -> None:
    client = Client()
    client.ask(Kind.RESIZE, message_bodies.RESIZE.pack(1, 9, 5))
    client.ask(Kind.RESIZE, message_bodies.RESIZE.pack(1, 3, 6))
    answer = client.ask(Kind.WRITE, runs((1, 3, 0)), b"abc")
    assert message_bodies.decode_written(memoryview(answer.body), 1) == (3, 1, (3,), (5 ^ 6,))


def test_a_failed_read_names_the_handle_of_its_subfile() -> None:
    client = Client()
    client.ask(Kind.OPEN, message_bodies.encode_open("b"))

    def fail(file: int, piece: memoryview, offset: int) -> int:
        if file == 11:
            raise CallFailed("read", errno.EIO)
        return 0

    client.files.read = fail  # type: ignore[method-assign]
    for number in (1, 20):  # alone, and as many as are moved together
        near = [(2, 4, 8 * place) for place in range(number)]
        answer = client.ask(Kind.READ, runs((1, 4, 0), *near))
        assert answer.kind == Kind.FAILED
        assert message_bodies.FAILURE.unpack(answer.body)[:3] == (errno.EIO, CALLS.index("read"), 2)


def test_errors_are_reported_with_what_was_refused_and_begin_anew() -> None:
    client = Client()
    client.files.rejected = 3
    assert message_bodies.ERRORS_ANSWER.unpack(client.ask(Kind.ERRORS).body)[-1] == 3
    assert message_bodies.ERRORS_ANSWER.unpack(client.ask(Kind.ERRORS).body)[-1] == 0


def test_a_client_that_goes_while_it_waits_for_a_sync_leaves_no_descriptor(tmp_path: Path) -> None:
    from sfio_emu.adapters.listener_disk import RootedSubfiles
    from sfio_emu.listener.connection import ServerConnection
    from tests.helpers.mutated_messages import feed

    subfiles = RootedSubfiles(tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    connection = ServerConnection(subfiles, BufferPool(1 << 20, LIMIT_BYTES))
    feed(connection, wire.encode_header(Kind.OPEN, 0, message_bodies.encode_open("a")))
    feed(connection, wire.encode_header(Kind.SYNC, 1, message_bodies.HANDLE.pack(1)))
    assert connection.pending
    connection.abandon()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    subfiles.dispose()
