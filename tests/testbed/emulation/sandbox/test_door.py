"""The door of a network: names, who may enter, what is left. No switches are needed to knock."""

from __future__ import annotations

import json
import os
import socket
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from testbed.emulation.held.channel import Frame, checked, error_header, receive, send
from testbed.emulation.held.service import DoorKeeper
from testbed.emulation.sandbox.door import VARIABLE, inherited_door, knock, name_of, open_door, open_doors
from testbed.errors import CapabilityError, InputError, SessionError


@pytest.fixture
def name() -> str:
    return f"door-{uuid.uuid4().hex[:8]}"


def test_door_is_listed_while_it_is_open_and_has_no_file(name: str, tmp_path: Path) -> None:
    with open_door(name) as door:
        assert name in open_doors() and name_of(door) == name
        with knock(name):
            pass
        with pytest.raises(InputError, match="is up already"):
            open_door(name)
    assert name not in open_doors()
    with pytest.raises(InputError, match="no network named"):
        knock(name)


@pytest.mark.parametrize("wrong", ["", "a b", "../x", "-x", "x" * 65, "a\0b"])
def test_name_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(InputError, match="give letters, digits"):
        open_door(wrong)


def test_inherited_door_is_taken_once_and_nothing_else_is_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_door(name) as door:
        monkeypatch.setenv(VARIABLE, str(os.dup(door.fileno())))
        with inherited_door() or socket.socket() as found:
            assert name_of(found) == name
        assert inherited_door() is None
    reader, writer = os.pipe()
    for number in (str(reader), "999999", "x"):
        monkeypatch.setenv(VARIABLE, number)
        assert inherited_door() is None
    os.close(writer)
    os.close(reader)


def test_frames_carry_bytes_and_descriptors() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reader, writer = os.pipe()
        send(ours, {"do": "it"}, b"body", [writer])
        frame = checked(receive(theirs))
        assert (frame.header, frame.body, len(frame.descriptors)) == ({"do": "it"}, b"body", 1)
        os.write(frame.descriptors[0], b"through")
        assert os.read(reader, 10) == b"through"
        frame.close()
        os.close(reader)
        os.close(writer)
        ours.shutdown(socket.SHUT_WR)
        assert receive(theirs) is None


def test_garbage_is_a_session_error() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"\xff" * 64)
        with pytest.raises(SessionError, match="another language"):
            receive(theirs)


def test_errors_of_ours_arrive_as_they_were_raised() -> None:
    for error in (InputError("a"), CapabilityError("b")):
        with pytest.raises(type(error), match=str(error)):
            checked(Frame(error_header(error)))
    with pytest.raises(SessionError, match="KeyError"):
        checked(Frame(error_header(KeyError("x"))))
    with pytest.raises(SessionError, match="has gone"):
        checked(None)


def test_keeper_serves_many_at_once_and_survives_what_a_handler_raises(name: str) -> None:
    meeting = threading.Barrier(3, timeout=20)

    def meet(sock: socket.socket, _: Frame) -> None:
        meeting.wait()
        send(sock, {"met": True})

    def fail(_: socket.socket, request: Frame) -> None:
        raise {"input": InputError("bad"), "bug": ZeroDivisionError("oops")}[request.header["how"]]

    keeper = DoorKeeper(open_door(name), {"meet": meet, "fail": fail})
    keeper.start()
    found: list[Any] = []

    def ask(header: dict[str, Any]) -> None:
        with knock(name) as sock:
            send(sock, header)
            frame = receive(sock)
            found.append(frame and frame.header)

    threads = [threading.Thread(target=ask, args=({"do": "meet"},)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for header in ({"do": "fail", "how": "input"}, {"do": "fail", "how": "bug"}, {"do": "nothing"}, {"do": 5}):
        ask(header)
    assert found[:3] == [{"met": True}] * 3
    assert [one["error"] for one in found[3:]] == ["InputError", "SessionError", "InputError", "InputError"]
    assert json.dumps(found)
    keeper.close()
    with pytest.raises(InputError, match="no network named"):
        knock(name)


def test_closing_ends_who_still_waits(name: str) -> None:
    waiting = threading.Event()

    def wait(sock: socket.socket, _: Frame) -> None:
        waiting.set()
        receive(sock)

    keeper = DoorKeeper(open_door(name), {"wait": wait})
    keeper.start()
    with knock(name) as sock:
        send(sock, {"do": "wait"})
        assert waiting.wait(10)
        keeper.close()
        assert receive(sock) is None
