"""A listener without a key serves its own user alone; a key that others can read is told of."""

from __future__ import annotations

import logging
import os
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from sfio_emu.adapters.key_files import new_key, read_key, write_key
from sfio_emu.adapters.local_users import is_foreign_user, is_own_user
from sfio_emu.adapters.peers.group_server import GroupError, GroupServer
from sfio_emu.adapters.process_group import SocketGroup
from sfio_emu.adapters.sockets import TcpConnections
from sfio_emu.errors import UsageError
from tests.helpers.listeners import listener
from tests.helpers.ordinary_user import as_ordinary_user

ASK = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 10); s.settimeout(3); {}"
HEAR = ASK.format("print(s.recv(1) or 'turned away')")


def connected(address: str = "127.0.0.1") -> tuple[socket.socket, socket.socket]:
    with socket.create_server(
        (address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET
    ) as door:
        client = socket.create_connection(door.getsockname()[:2])
        return client, door.accept()[0]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_both_ends_of_one_user_know_each_other(address: str) -> None:
    try:
        client, ours = connected(address)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with client, ours:
        assert is_own_user(ours) and is_own_user(client)
        assert not is_foreign_user(ours) and not is_foreign_user(client)
        client.close()
        assert is_foreign_user(ours)


def test_a_process_of_this_user_is_known_until_it_closes() -> None:
    client, ours = connected()
    with ours:
        assert is_own_user(ours)
        client.close()  # from now on the kernel shows the socket as root's
        assert not is_own_user(ours)


def test_a_connection_that_was_reset_is_nobody_s() -> None:
    client, ours = connected()
    with ours:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        assert not is_own_user(ours)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize(("options", "said"), [((), "turned away"), (("--without-key",), None)])
def test_another_user_is_turned_away_unless_everybody_is_served(
    options: tuple[str, ...], said: str | None, tmp_path: Path
) -> None:
    with listener(tmp_path, "p1", *options) as (_, addresses):
        words = as_ordinary_user([sys.executable, "-c", HEAR, str(addresses["p1"][1])])
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    if said is None:
        assert "TimeoutError" in done.stderr  # served: the listener waits for its first word
    else:
        assert done.stdout.strip() == said, done.stderr


LISTEN = (
    "import socket, sys; door = socket.create_server(('127.0.0.1', 0))\n"
    "print(door.getsockname()[1], flush=True)\n"
    "if sys.argv[1] == 'accept': stream, _ = door.accept()\n"
    "sys.stdin.read(); print(stream.recv(99) if sys.argv[1] == 'accept' else b'')"
)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("accepting", ["accept", "wait"])
def test_another_users_listener_is_given_nothing(accepting: str) -> None:
    """It has taken the port of a listener of this user that has died."""
    words = as_ordinary_user([sys.executable, "-c", LISTEN, accepting])
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as theirs:
        assert theirs.stdout is not None
        port = int(theirs.stdout.readline())
        with pytest.raises(UsageError, match="is a process of another user"):
            TcpConnections({"p1": ("127.0.0.1", port)}).connect("p1")
        assert theirs.communicate("")[0].strip() == "b''"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_users_listener_is_used_by_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFIO_WITHOUT_KEY", "1")
    words = as_ordinary_user([sys.executable, "-c", LISTEN, "wait"])
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as theirs:
        assert theirs.stdout is not None
        port = int(theirs.stdout.readline())
        TcpConnections({"p1": ("127.0.0.1", port)}).connect("p1").stream.close()
        theirs.communicate("")


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_own_listener_that_has_not_accepted_is_no_foreign_one(address: str) -> None:
    """It may be stopped, or busy."""
    with socket.create_server((address, 0)) as door:
        port = door.getsockname()[1]
        TcpConnections({"p1": ("127.0.0.1", port)}).connect("p1").stream.close()


def test_own_listener_that_accepts_meanwhile_is_no_foreign_one() -> None:
    """The connection becomes a process's while the kernel is asked whose it is."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    listener.accept()[0].close()

        threading.Thread(target=accept, daemon=True).start()
        connections = TcpConnections({"p1": ("127.0.0.1", listener.getsockname()[1])})
        for _ in range(500):
            connections.connect("p1").stream.close()
        listener.shutdown(socket.SHUT_RDWR)


JOIN = (
    "from sfio_emu.adapters.process_group import SocketGroup; import sys\n"
    "SocketGroup.join(sys.argv[1], 1, 2, 5).all_gather(b'foreign')"
)
SERVE = (
    "from sfio_emu.adapters.peers import group_server; import sys\n"
    "group_server.is_foreign_user = lambda _: False\n"
    "with group_server.GroupServer('tcp:127.0.0.1:0', 1) as server: print(server.address, flush=True); sys.stdin.read()"
)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_takes_no_rank_of_a_group() -> None:
    with GroupServer("tcp:127.0.0.1:0", 2) as server:
        done = subprocess.run(
            as_ordinary_user([sys.executable, "-c", JOIN, server.address]),
            capture_output=True,
            text=True,
            timeout=60,
        )
        # It ends, or is reset, as the kernel has it.
        assert "GroupError: process group: the coordinator of the process group" in done.stderr
        with pytest.raises(GroupError, match="rank 1"):
            SocketGroup.join(server.address, 0, 2, 0.5)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_nobody_joins_the_group_of_another_user() -> None:
    words = as_ordinary_user([sys.executable, "-c", SERVE])
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as theirs:
        assert theirs.stdout is not None
        with pytest.raises(GroupError, match="not known to be this user's"):
            SocketGroup.join(theirs.stdout.readline().strip(), 0, 1, 5)
        theirs.communicate()


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o604, 0o660])
def test_a_key_that_others_can_read_is_told_of(
    mode: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, key = tmp_path / "key", new_key()
    write_key(file, key)
    file.chmod(mode)
    with caplog.at_level(logging.WARNING):
        assert read_key(file) == key
    assert bool(caplog.messages) == bool(mode & 0o077)
    assert all("chmod 600" in message and key.hex() not in message for message in caplog.messages)
