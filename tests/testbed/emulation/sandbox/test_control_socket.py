"""The door of a network: names, who may enter, what is left. No switches are needed to knock."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from testbed.emulation.attach import exec_proxy
from testbed.emulation.attach.client import program_argv, send_request
from testbed.emulation.attach.protocol import Frame, checked, error_header, receive, send
from testbed.emulation.attach.server import ControlServer
from testbed.emulation.sandbox.control_socket import (
    VARIABLE,
    connect,
    control_address,
    inherited_socket,
    listen,
    network_name,
    network_names,
    same_user,
    unused_name,
)
from testbed.errors import CapabilityError, InputError, SessionClosedError


@pytest.fixture
def name() -> str:
    return f"door-{uuid.uuid4().hex[:8]}"


def test_door_is_listed_while_it_is_open_and_has_no_file(name: str, tmp_path: Path) -> None:
    with listen(name) as door:
        assert name in network_names() and network_name(door) == name
        with connect(name):
            pass
        with pytest.raises(InputError, match="is up already"):
            listen(name)
    assert name not in network_names()
    with pytest.raises(InputError, match="no network named"):
        connect(name)


def test_unnamed_socket_is_not_taken_by_another_process_of_its_number(name: str) -> None:
    """Containers that share a network have processes of the same numbers."""
    first = f"{name}-{os.getpid()}"
    with listen(first):
        assert unused_name(name) != first
        with listen(unused_name(name)):
            assert len({unused_name(name), unused_name(name), *network_names()}) >= 4


STRANGER = """
import array, json, os, socket, sys
os.setgid(65534); os.setuid(65534)
doors = []
for name in sys.argv[1:]:
    doors.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    doors[-1].bind("\\0" + name)
    doors[-1].listen(50)
print("listening", flush=True)
sys.stdin.readline()
found = []
for door in doors:
    door.setblocking(False)
    try:
        while True:
            peer, _ = door.accept()
            data, descriptors, _, _ = socket.recv_fds(peer, 65536, 8)
            found.append([len(data), len(descriptors)])
    except BlockingIOError:
        pass
print(json.dumps(found))
"""


@contextmanager
def stranger(*names: str) -> Iterator[Callable[[], list[list[int]]]]:
    """Another user listens at these abstract names; what is yielded tells the bytes and descriptors of all who came."""
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    words = [sys.executable, "-I", "-S", "-c", STRANGER, *names]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "listening\n"
        yield lambda: list(json.loads(process.communicate("\n", timeout=30)[0]))
        process.kill()


def test_another_user_is_handed_no_terminal_when_a_network_has_died(
    name: str,
) -> None:
    door = listen(name)
    address = control_address(name)
    door.close()
    with stranger(address) as came:
        with pytest.raises(InputError, match="no network named"):
            program_argv(name, "h0", ["id"])
        with pytest.raises(InputError, match="no network named"):
            send_request(name, {"do": "describe"})
        words = [
            sys.executable,
            "-I",
            "-S",
            exec_proxy.__file__,
            address,
            json.dumps({"do": "exec"}),
        ]
        done = subprocess.run(words, input="secret", capture_output=True, text=True, timeout=30)
        assert (done.returncode, done.stdout) == (
            3,
            "",
        ) and "another user listens in its place" in done.stderr
        assert name not in network_names()
        found = came()
        assert len(found) >= 3 and not any(any(sent) for sent in found)


def test_another_user_can_keep_no_name(name: str) -> None:
    user = os.geteuid()
    with stranger(f"testbed-network-{user}-{name}", f"testbed-network-{user}-{'0' * 16}-{name}"):
        with listen(name), connect(name) as sock:
            assert same_user(sock) and network_names().count(name) == 1
            with pytest.raises(InputError, match="is up already"):
                listen(name)
        assert name not in network_names()


def test_client_that_accepts_nothing_delays_no_other(name: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as deaf, ExitStack() as waiting:
        deaf.bind(f"\0testbed-network-{os.geteuid()}-{'0' * 16}-{name}")
        deaf.listen(0)
        waiting.enter_context(connect(name))
        began = time.monotonic()
        assert name not in network_names() and time.monotonic() - began < 10


def test_many_full_sockets_hold_nobody_up(name: str) -> None:
    """Another user may have any number of them, called like doors of this user."""
    with ExitStack() as stack:
        for number in range(60):
            full = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            full.bind(f"\0testbed-network-{os.geteuid()}-{number:016x}-{name}")
            full.listen(0)
            for _ in range(2):
                waiting = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                waiting.setblocking(False)
                with suppress(BlockingIOError):
                    waiting.connect(full.getsockname())
        began = time.monotonic()
        with listen(name), connect(name):
            assert name in network_names()
        assert time.monotonic() - began < 5


@pytest.mark.parametrize("wrong", ["", "a b", "../x", "-x", "x" * 65, "a\0b"])
def test_name_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(InputError, match="give letters, digits"):
        listen(wrong)


def test_inherited_door_is_taken_once_and_nothing_else_is_one(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listen(name) as door:
        monkeypatch.setenv(VARIABLE, str(os.dup(door.fileno())))
        with inherited_socket() or socket.socket() as found:
            assert network_name(found) == name
        assert inherited_socket() is None
    reader, writer = os.pipe()
    for number in (str(reader), "999999", "x"):
        monkeypatch.setenv(VARIABLE, number)
        assert inherited_socket() is None
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
        with pytest.raises(SessionClosedError, match="another version"):
            receive(theirs)


def test_errors_of_ours_arrive_as_they_were_raised() -> None:
    for error in (InputError("a"), CapabilityError("b")):
        with pytest.raises(type(error), match=str(error)):
            checked(Frame(error_header(error)))
    with pytest.raises(SessionClosedError, match="KeyError"):
        checked(Frame(error_header(KeyError("x"))))
    with pytest.raises(SessionClosedError, match="has gone"):
        checked(None)


def test_keeper_serves_many_at_once_and_survives_what_a_handler_raises(name: str) -> None:
    meeting = threading.Barrier(3, timeout=20)

    def meet(sock: socket.socket, _: Frame) -> None:
        meeting.wait()
        send(sock, {"met": True})

    def fail(_: socket.socket, request: Frame) -> None:
        raise {"input": InputError("bad"), "bug": ZeroDivisionError("oops")}[request.header["how"]]

    keeper = ControlServer(listen(name), {"meet": meet, "fail": fail})
    keeper.start()
    found: list[Any] = []

    def ask(header: dict[str, Any]) -> None:
        with connect(name) as sock:
            send(sock, header)
            frame = receive(sock)
            found.append(frame and frame.header)

    threads = [threading.Thread(target=ask, args=({"do": "meet"},)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for header in (
        {"do": "fail", "how": "input"},
        {"do": "fail", "how": "bug"},
        {"do": "nothing"},
        {"do": 5},
    ):
        ask(header)
    assert found[:3] == [{"met": True}] * 3
    assert [one["error"] for one in found[3:]] == [
        "InputError",
        "SessionClosedError",
        "InputError",
        "InputError",
    ]
    assert json.dumps(found)
    keeper.close()
    with pytest.raises(InputError, match="no network named"):
        connect(name)


def test_closing_ends_who_still_waits(name: str) -> None:
    waiting = threading.Event()

    def wait(sock: socket.socket, _: Frame) -> None:
        waiting.set()
        receive(sock)

    keeper = ControlServer(listen(name), {"wait": wait})
    keeper.start()
    with connect(name) as sock:
        send(sock, {"do": "wait"})
        assert waiting.wait(10)
        keeper.close()
        assert receive(sock) is None
