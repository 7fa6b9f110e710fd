"""Arguments that make no sense end in one line that says which and how to mend it; numbers of numpy are as good as
Python's."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfio_emu import (
    Layout,
    ListenerLost,
    RemoteFailure,
    Session,
    Settings,
    SfioError,
    StaleFileError,
    StripedFile,
    UsageError,
    mchsize,
    mclose,
    mcreate,
    mopen,
    mread,
    mwrite,
    mwriteb,
    mwritec,
    use,
)
from sfio_emu.adapters.environment import parse_listeners, session_from_environment
from sfio_emu.adapters.listener import main as listener_main
from sfio_emu.adapters.process_group import GroupError, SocketGroup
from sfio_emu.adapters.sockets import TcpConnections
from sfio_emu.views import datatypes
from sfio_emu.views.access_modes import Amode, parse_amode
from sfio_emu.views.datatypes import INT32
from sfio_emu.views.dealt_arrays import darray
from tests.helpers.listeners import listener, session_of


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A striped file of 100 bytes, whose session is that of the process; its methods take anything here."""
    with listener(tmp_path_factory.mktemp("root"), "p1") as (_, addresses):
        session = session_of(addresses)
        use(session)
        with StripedFile.open("p1/a", 5, session=session) as opened:
            opened.pwrite(bytes(range(100)), 0)
            yield opened
        use(None)


@pytest.mark.parametrize("unit", [5.0, None, float("nan"), "5", True, 2**70, 0, np.array([5])])
def test_a_stripe_unit_is_a_whole_number(file: Any, unit: Any) -> None:
    with pytest.raises(UsageError, match=r"the stripe unit is .*: give a whole number from 1"):
        mopen("p1/b", unit)


@pytest.mark.parametrize("offset", [-1, 2**63, 2**64, None, float("nan"), 1.7, "3", True, b"1"])
def test_an_offset_is_a_whole_number(file: Any, offset: Any) -> None:
    buffer = bytearray(3)
    for access in (file.pread, file.pwrite, file.read_fragments, file.write_fragments):
        with pytest.raises(
            UsageError, match=r"the offset is .*: give a whole number from 0 to 2\^62"
        ):
            access(buffer, offset)
    for many in (file.preadv, file.pwritev):
        with pytest.raises(UsageError, match=r"the offset of block 1 is .*: give a whole number"):
            many([buffer, buffer], [0, offset])
    for blocks in (file.pread_blocks, file.pwrite_blocks):
        with pytest.raises(UsageError, match="the offset of block 0 is "):
            blocks(buffer, [offset], [0], [1])


@pytest.mark.parametrize("size", [-1, 2**63, None, float("nan"), 5.5, "5"])
def test_a_size_is_a_whole_number(file: Any, size: Any) -> None:
    with pytest.raises(
        UsageError, match=r"the size of the file is .*: give a whole number from 0 to 2\^62"
    ):
        mchsize(file, size)
    if size is not None:
        with pytest.raises(
            UsageError,
            match=r"the size with a buffer of 3 bytes is .*: give a whole number from 0 to 3",
        ):
            mwritec(file, 0, b"abc", size)


def test_names_are_text() -> None:
    for name in (b"p1/c", None, 5):
        with pytest.raises(UsageError, match="the name of a striped file is a str"):
            mcreate(name)  # type: ignore[arg-type]
    for half in ("p1/\ud800", "p\ud800/a"):
        with pytest.raises(UsageError, match="a lone surrogate"):
            mcreate(half)


def test_files_buffers_and_positions_are_checked(file: Any) -> None:
    for call in (
        lambda: mclose(None),
        lambda: mread(None, 0, bytearray(3)),
        lambda: mwrite(None, 0, b"a"),
    ):  # type: ignore[arg-type]
        with pytest.raises(
            UsageError, match="a NoneType is not a striped file: give what mopen returned"
        ):
            call()
    with pytest.raises(UsageError, match="has no bytes, cannot include dtype 'M' in a buffer"):
        file.pwrite(np.zeros(3, "datetime64[s]"), 0)
    with pytest.raises(UsageError, match="holds Python objects"):
        file.pwrite(np.array([None, 1], dtype=object), 0)
    with pytest.raises(UsageError, match="the offsets are None"):
        file.pwritev([b"a"], None)
    for buffers in (None, b"abc", 5):
        with pytest.raises(UsageError, match="give a list of buffers"):
            file.pwritev(buffers, 0)
    for offsets in (None, 5):
        with pytest.raises(UsageError, match=f"the offsets are {offsets}: give a list"):
            mwriteb(file, 1, offsets, [b"a"], [1])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"the number of blocks is 1\.5"):
        mwriteb(file, 1.5, [0], [b"a"], [1])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the offsets are lists of different lengths"):
        file.pwrite_blocks(b"abc", [[1], [1, 2]], [0], [1])
    for position in (1.5, None, 2**63):
        with pytest.raises(UsageError, match="the offset to seek is"):
            file.seek(position)


def test_names_that_no_listener_takes_are_refused_before_anything_is_made() -> None:
    with pytest.raises(UsageError, match="has a name longer than 255 bytes"):
        mcreate("p1/" + "a" * 256)
    with pytest.raises(UsageError, match="5000 subfiles on the host 'p1': give at most 4096"):
        mcreate(";".join(f"p1/{number}" for number in range(5000)))


def test_sessions_are_checked(file: Any) -> None:
    connections = file.session.connections
    for make, said in (
        (lambda: use(5), "a int is not a session"),  # type: ignore[arg-type]
        (lambda: Session(None), "connections of type NoneType: give a TcpConnections"),  # type: ignore[arg-type]
        (lambda: Session(connections, group=5), "a group of type int"),  # type: ignore[arg-type]
        (lambda: Session(connections, settings={}), "settings of type dict"),  # type: ignore[arg-type]
        (lambda: SocketGroup.join(None, 0, 1, 1.0), "address of the process group is None"),  # type: ignore[arg-type]
        (lambda: SocketGroup.join("unix:/no", 0.5, 1, 1.0), "the rank in a group of 1 is 0.5"),  # type: ignore[arg-type]
    ):
        with pytest.raises(UsageError, match=said):
            make()


def test_an_environment_without_listeners_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SFIO_LISTENERS", raising=False)
    session = session_from_environment()
    with pytest.raises(
        UsageError,
        match="no listener is known for the host 'p1': set SFIO_LISTENERS to p1=ADDRESS:PORT",
    ):
        StripedFile.open("p1/a", 5, session=session)
    for text, said in (
        (
            "p1=127.0.0.1:99999",
            "the port of p1 in SFIO_LISTENERS is 99999: give a whole number from 1 to 65535",
        ),
        ("p1=127.0.0.1:\u00b2", "has the part"),
        ("p1=127.0.0.1:1,p1=127.0.0.1:2", "names the host 'p1' twice"),
    ):
        with pytest.raises(UsageError, match=said):
            parse_listeners(text)


def test_settings_and_ports_are_checked() -> None:
    with pytest.raises(UsageError, match="the setting check_data is 'no': give True or False"):
        Settings(check_data="no")  # type: ignore[arg-type]
    for window in (1.5, None, float("nan"), 0):
        with pytest.raises(UsageError, match="the window"):
            Settings(window=window)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the port of the listener of p1 is 99999"):
        TcpConnections({"p1": ("127.0.0.1", 99999)})


def test_numbers_of_numpy_are_numbers(file: Any) -> None:
    with mopen("p1/n", np.int64(5)) as other:  # type: ignore[arg-type]
        other.truncate(np.int32(9))
        assert other.size() == 9
    assert file.pread(np.uint8(3), np.int64(7)) == b"\x07\x08\x09"
    target = bytearray(2)
    assert file.pread(target, np.uint64(98)) == 2 and target == b"bc"
    assert file.preadv([target], np.array([99], dtype=np.uint64)) == [1]
    assert file.seek(np.int16(4)) == 4 and file.read(np.int8(1)) == b"\x04"
    assert file.read(None) == bytes(range(5, 100))
    assert Layout(stripe_unit=1000, subfiles=2).subfile_sizes(np.uint8(35)) == (35, 0)  # type: ignore[arg-type]
    window = Settings(window=np.uint8(255)).window  # type: ignore[arg-type]
    assert (window, type(window)) == (255, int)
    assert parse_amode(np.int64(9)) == Amode.RDWR | Amode.CREATE
    axes = [(np.uint8(200), "block", None, 2)]
    assert darray(2, 0, axes, INT32).extent_bytes == 800  # type: ignore[arg-type]


def test_addresses_and_time_outs_are_checked() -> None:
    place = {"p1": ("127.0.0.1", 7000)}
    for addresses, options, said in (
        (["p1"], {}, "the addresses are of type list"),
        ({"p1": "127.0.0.1:7000"}, {}, "the address of the listener of p1 is '127.0.0.1:7000'"),
        ({"p1": ("127.0.0.1", "7000")}, {}, "the port of the listener of p1 is '7000'"),
        (place, {"timeout_s": float("nan")}, "the time-out is nan: give seconds above 0"),
        (place, {"timeout_s": None}, "the time-out is None"),
        (place, {"timeout_s": -1}, "the time-out is -1"),
        (place, {"timeout_s": True}, "the time-out is True"),
        (place, {"stall_s": "1"}, "the stall_s is '1'"),
    ):
        with pytest.raises(UsageError, match=said):
            TcpConnections(addresses, **options)  # type: ignore[arg-type]
    with pytest.raises(
        ListenerLost,
        match=r"no connection to its listener at ü\.\.x:1: encoding of hostname failed",
    ):
        TcpConnections({"p1": ("ü..x", 1)}).connect("p1")
    assert TcpConnections(place, timeout_s=np.int64(2), stall_s=np.float32(2.5))  # type: ignore[arg-type]


def test_open_objects_cannot_be_pickled_or_copied(file: Any) -> None:
    for act in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(
            TypeError, match="an open striped file belongs to its process: open it in the other"
        ):
            act(file)
        with pytest.raises(
            TypeError, match="a session belongs to its process: make one in the other"
        ):
            act(file.session)


def test_a_listener_says_that_an_address_is_no_host_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        listener_main(["--subfile-dir", str(tmp_path), "--listen", "ü..x:0", "--without-key"]) == 2
    )
    assert capsys.readouterr().err == "the listener cannot start: encoding of hostname failed\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--memory", "100"],
            "argument --memory: '100' is not a valid size; give bytes, 4096 to 2^62",
        ),
        (
            ["--message", "100"],
            "argument --message: '100' is not a valid size; give bytes, 4096 to 268435456",
        ),
        (["--message", "1e9"], "argument --message: '1e9' is not a valid size"),
        (["--memory", "-5"], "argument --memory"),
        (["--listen", "a@127.0.0.1:²"], "'a@127.0.0.1:²' is not [NAME@]HOST:PORT"),
        (["--listen", "a@127.0.0.1:" + "1" * 4301], "1' is not [NAME@]HOST:PORT"),
        (
            ["--memory", "100000", "--message", "200000"],
            "--message 200000 does not fit into --memory 100000",
        ),
    ],
)
def test_the_option_that_is_wrong_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        listener_main(["--subfile-dir", str(tmp_path), "--listen", "p1@127.0.0.1:0", *options])
    assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_a_message_is_one_line_whatever_is_in_it(file: Any) -> None:
    for name in ("p1/two\nlines", "p1/\x1b[31mred", "p1/\udcff"):
        with pytest.raises(RemoteFailure) as caught:
            StripedFile.open(name, 5, mode="r", session=file.session)
        assert str(caught.value).isprintable()
    with pytest.raises(UsageError) as refused:
        mopen("p1/b", np.array([[1, 2], [3, 4]]))
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    "error",
    [
        UsageError("a"), ListenerLost("p1", "b"), StaleFileError("p1", "c"), GroupError("d", 3),
        RemoteFailure("p1", "write", 28, "e", 5, hint=": f"),
    ],
)  # fmt: skip
def test_an_error_reaches_whoever_waits_for_another_process(error: SfioError) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("build", [
    lambda base: datatypes.contiguous(4, base),
    lambda base: datatypes.vector(2, 1, 3, base),
    lambda base: datatypes.hvector(2, 1, 3, base),
    lambda base: datatypes.indexed([1], [0], base),
    lambda base: datatypes.indexed_block(1, [0], base),
    lambda base: datatypes.struct([1], [0], [base]),
    lambda base: datatypes.subarray([4], [2], [1], base),
    lambda base: datatypes.resized(base, 0, 3),
])  # fmt: skip
def test_datatype_refuses_other_base_types(build: Any) -> None:
    with pytest.raises(
        UsageError, match=r"is 'double': give a datatype of sfio_emu\.views\.datatypes"
    ):
        build("double")
