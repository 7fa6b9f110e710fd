"""The live page's server: who may read it, what it allows a browser, and that it neither holds a run up nor outlives
it."""

from __future__ import annotations

import asyncio
import gc
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from testbed.errors import CapabilityError
from testbed.live.adapters import feed
from testbed.live.events import Sample, encode
from testbed.live.run_views import network_view
from testbed.live.view import Update
from testbed.model.progress import CounterReading, Progress
from tests.helpers.warm import TESTBED, WarmProcess
from topologies import load_network

pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")
server = pytest.importorskip("testbed.live.adapters.server")
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, feed.Feed]]:
    """The address, and the run's end, of a server that the first tests ask and the last of them ends."""
    address = feed.start_server()
    own = feed.live_feed()
    assert own is not None
    yield address, own
    feed.end_feed("passed")


def _get(address: str, path: str = "", **headers: str) -> tuple[int, dict[str, str], bytes]:
    place = urlsplit(address)
    assert place.hostname is not None
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=60)
    connection.putrequest(
        "GET", path if path.startswith("/") else place.path + path, skip_host="Host" in headers
    )
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return found


def test_only_the_right_token_host_and_origin_are_let_in(served: tuple[str, feed.Feed]) -> None:
    address, _ = served
    place = urlsplit(address)
    assert place.hostname == "127.0.0.1" and len(place.path) >= 30
    status, headers, page = _get(address)
    assert status == 200 and b"EventSource" in page and place.path.strip("/").encode() not in page
    assert (
        "default-src 'none'" in headers["Content-Security-Policy"]
        and headers["Referrer-Policy"] == "no-referrer"
    )
    own = f"http://{place.netloc}"
    assert _get(address, "metrics", Origin=own)[0] == 200
    wrong = place.path[:-2] + ("a" if place.path[-2] != "a" else "b") + "/"
    for path in ("", "metrics", "events"):
        assert _get(address, wrong + path)[0] == 404
        assert _get(address, path, Origin="http://example.org")[0] == 403
        assert _get(address, path, Origin="null")[0] == 403
        assert _get(address, path, Host="example.org")[0] == 403
    assert _get(address, "/")[0] == 404
    assert not any("Access-Control" in name for name in _get(address, "metrics")[1])


def test_live_server_listens_on_loopback_only(served: tuple[str, feed.Feed]) -> None:
    port = urlsplit(served[0]).port
    listening = [
        line.split()[1]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if line.split()[3] == "0A"
    ]
    assert [at for at in listening if int(at.split(":")[1], 16) == port] == [f"0100007F:{port:04X}"]


def test_cables_fail_on_requests_of_the_page_only_if_the_network_allows_it(
    served: tuple[str, feed.Feed],
) -> None:
    address, own = served
    place = urlsplit(address)
    asked = json.dumps({"link": "s0->s1", "up": False})

    def cut(**headers: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=60)
        connection.request("POST", place.path + "cable", asked, headers)
        status = connection.getresponse().status
        connection.close()
        return status

    ring = load_network("ring:4")
    own.open(network_view("a ring", ring, {ring.links[0].id: 1}))
    origin = f"http://{place.netloc}"
    assert cut(Origin=origin) == 403
    own.open(
        replace(network_view("a ring", ring, {ring.links[0].id: 1}), control="no-such-network")
    )
    for _ in range(100):
        if (status := cut(Origin=origin)) != 403:
            break
        time.sleep(0.02)
    assert status == 400
    assert cut() == cut(Origin="http://example.org") == 403


def test_events_are_streamed_and_the_end_is_told(
    served: tuple[str, feed.Feed], tmp_path: Path
) -> None:
    address, own = served
    place = urlsplit(address)
    own.open(network_view("a ring", load_network("ring:4"), {}))
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=60)
    connection.request("GET", place.path + "events")
    answer = connection.getresponse()
    assert answer.getheader("Content-Type") == "text/event-stream"
    own.send(
        Sample(
            clock_s=1.0, done=0.25, doing="at it", reading=CounterReading(faults=("s0->s1 down",))
        )
    )
    while b'"doing": "at it"' not in (line := answer.readline()):
        pass
    assert json.loads(line.removeprefix(b"data: "))["faults"] == ["s0->s1 down"]
    own.page = tmp_path / "page.html"
    own.page.write_text("<p>the page</p>")
    feed.end_feed("passed")
    ended = {"outcome": "passed", "page": str(tmp_path / "page.html"), "html": "<p>the page</p>"}
    assert json.loads(answer.read().rsplit(b"data: ", 1)[1]) == ended


def test_a_page_that_opens_before_the_run_begins_shows_what_is_planned() -> None:
    address = feed.start_server(network_view("a ring", load_network("ring:4"), {}))
    try:
        assert b"a ring" in _get(address)[2]
        connection = http.client.HTTPConnection("127.0.0.1", urlsplit(address).port, timeout=60)
        connection.request("GET", urlsplit(address).path + "events")
        answer = connection.getresponse()
        while b"the network is being built" not in answer.readline():
            pass
        connection.close()
    finally:
        assert feed.live_feed() is not None
        feed.end_feed("passed")


def test_a_feed_that_nobody_reads_drops_and_never_waits() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        own = feed.Feed(ours)
        sample = Sample(
            clock_s=1.0,
            reading=CounterReading(link_bytes={(str(k), "b", 0): k**5 for k in range(400)}),
        )
        went = [own.send(sample) for _ in range(500)]
        assert went[0] and not went[-1]
        theirs.close()
        assert not own.send(sample)


def test_reports_reach_the_page_a_few_times_a_second_and_faults_at_once() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        theirs.setblocking(False)
        report, began_s = feed.LiveReport(feed.Feed(ours), None), time.monotonic()
        for k in range(1000):
            faults = ("s0->s1 down",) if k >= 500 else ()
            report(
                Progress(done_s=k, total_s=1000, doing="x", reading=CounterReading(faults=faults))
            )
        most = 3 + (time.monotonic() - began_s) / feed.PERIOD_S
        came = 0
        while True:
            try:
                theirs.recv(1 << 20)
            except BlockingIOError:
                break
            came += 1
        assert 2 <= came <= most


def test_a_missing_extra_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "installed", lambda name: name != "aiohttp")
    with pytest.raises(
        CapabilityError, match=r"aiohttp is not installed; .* -m pip install .*\[live\]"
    ):
        feed.start_server()


def test_nothing_is_left_when_the_run_is_killed(tmp_path: Path) -> None:
    words = [
        "stream",
        "swiss-t1",
        "--from",
        "s1",
        "--to",
        "s6",
        "--faults",
        "none",
        "--duration",
        "20000",
        "--live",
    ]
    run = WarmProcess(
        [*TESTBED, *words, "--fabric", "simulator", "--results", str(tmp_path)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    assert run.stderr is not None
    address = (
        next(line for line in iter(run.stderr.readline, b"") if line.startswith(b"live: "))
        .split()[1]
        .decode()
    )
    assert _get(address)[0] == 200
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    assert children
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    run.stderr.close()
    until = time.monotonic() + 5
    while (
        any(Path(f"/proc/{child}/exe").exists() for child in children) and time.monotonic() < until
    ):
        time.sleep(0.05)
    assert not [child for child in children if Path(f"/proc/{child}/exe").exists()]
    with pytest.raises(OSError):
        _get(address)


def _waits(address: str, words: bytes) -> socket.socket:
    """A connection that has said the words, and reads nothing."""
    place = urlsplit(address)
    sock = socket.create_connection((place.hostname, place.port), timeout=30)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.sendall(words)
    return sock


async def _of_server(act: Callable[[server.LiveServer, str], Awaitable[None]]) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    live = server.LiveServer(ours, "token")
    async with live.serving() as address:
        await act(live, address)
    ours.close(), theirs.close()


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.02)


def _asks(address: str) -> bytes:
    place = urlsplit(address)
    return (
        f"GET {place.path}events HTTP/1.1\r\nHost: {place.hostname}:{place.port}\r\n\r\n".encode()
    )


def test_a_page_that_does_not_read_loses_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PATIENCE_S", 0.5)

    async def act(live: server.LiveServer, address: str) -> None:
        with _waits(address, _asks(address)):
            await _until(lambda: len(live._pages) == 1)
            live._tell(
                tuple(Update(name="state", data={"html": "x" * (1 << 20)}) for _ in range(20))
            )
            await _until(lambda: not live._pages)

    asyncio.run(_of_server(act))


def test_pages_and_connections_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_PAGES", 3)
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 6)

    async def act(live: server.LiveServer, address: str) -> None:
        with ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(_waits(address, _asks(address)))
            await _until(lambda: len(live._pages) == 3)
            more = stack.enter_context(_waits(address, _asks(address)))
            assert b"503" in await asyncio.to_thread(more.recv, 100)
            for _ in range(2):
                stack.enter_context(_waits(address, b""))
            await _until(lambda: len(live._silent) == 2)
            last = stack.enter_context(_waits(address, b""))
            last.settimeout(
                server.PATIENCE_S / 2
            )  # it is ended at once, not because it asks for nothing
            with suppress(ConnectionResetError):
                assert await asyncio.to_thread(last.recv, 1) == b""

    asyncio.run(_of_server(act))


def test_connections_that_come_together_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 6)

    async def act(live: server.LiveServer, address: str) -> None:
        with ExitStack() as stack:
            for _ in range(20):  # the server's loop does not run meanwhile
                stack.enter_context(_waits(address, b""))
            await _until(lambda: len(live._silent) > 0)
            await asyncio.sleep(0.1)
            assert len(live._silent) == 6

    asyncio.run(_of_server(act))


def test_other_users_leave_room_for_the_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_FOREIGN", 3)
    monkeypatch.setattr(server, "is_foreign_user", lambda _: True)

    async def act(live: server.LiveServer, address: str) -> None:
        with ExitStack() as stack:
            for _ in range(server.MAX_CONNECTIONS):
                stack.enter_context(_waits(address, b""))
            await _until(lambda: len(live._silent) >= 3)
            await asyncio.sleep(0.1)
            assert len(live._foreign) == 3
            monkeypatch.setattr(server, "is_foreign_user", lambda _: False)
            assert (await asyncio.to_thread(_get, address))[0] == 200

    asyncio.run(_of_server(act))


@pytest.mark.parametrize("path", ["wrong/", "wrong/metrics"])
def test_refused_request_ends_its_connection(path: str) -> None:
    """Otherwise who asks for wrong pages again and again would keep a place."""

    async def act(_: server.LiveServer, address: str) -> None:
        place = urlsplit(address)
        words = f"GET /{path} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode()
        with _waits(address, words) as sock:
            answer = b""
            while part := await asyncio.to_thread(sock.recv, 4096):
                answer += part
            assert answer.startswith(b"HTTP/1.1 404")

    asyncio.run(_of_server(act))


MALFORMED = [
    b"\x1b[2J\x1b]0;pwned\x07verdict: passed\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET / HTTP/9.\x1b[31m\r\nHost: a\r\n\r\n",
    b"POST /x/cable HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZZ\x1b[2J\r\n",
]


def test_malformed_requests_print_nothing() -> None:
    """The terminal is that of the user whose run it is."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    words = [sys.executable, "-P", "-m", server.__name__, str(theirs.fileno())]
    with ours, subprocess.Popen(words, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE) as run:
        theirs.close()
        address = ours.recv(1000).decode()
        for request in MALFORMED:
            with _waits(address, request) as sock, suppress(ConnectionResetError):
                sock.recv(1000)
        token = urlsplit(address).path
        nested = b"[" * 100_000
        view = network_view("a ring", load_network("ring:4"), {})
        ours.send(encode(replace(view, control="nobody")))
        origin = address.removesuffix(token)
        head = f"POST {token}cable HTTP/1.1\r\nHost: {urlsplit(address).netloc}\r\n"
        head += f"Origin: {origin}\r\nContent-Length: {len(nested)}\r\n\r\n"
        with _waits(address, head.encode() + nested) as sock:
            assert sock.recv(1000).startswith(b"HTTP/1.1 400")
        ours.close()
        assert run.stderr is not None
        assert run.stderr.read() == b""


def test_a_connection_that_asks_for_nothing_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PATIENCE_S", 0.5)

    async def act(live: server.LiveServer, address: str) -> None:
        for words in (b"", _asks(address)[:30]):
            with _waits(address, words) as sock, suppress(ConnectionResetError):
                assert await asyncio.to_thread(sock.recv, 1) == b""
        with _waits(address, _asks(address)):
            await _until(lambda: len(live._pages) == 1)
            await asyncio.sleep(1.0)
            assert len(live._pages) == 1  # a page that waits for news stays

    asyncio.run(_of_server(act))


def test_a_run_that_was_killed_meanwhile_ends_it_quietly() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.setblocking(False)
    ours.close()
    with theirs:
        asyncio.run(server._serve(theirs))


def test_command_refused_after_its_page_is_up_closes_the_page_quietly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    theirs.close()
    with ours:
        asyncio.run(server.LiveServer(ours, "token").until_over())
    gc.collect()
    assert not caplog.records
