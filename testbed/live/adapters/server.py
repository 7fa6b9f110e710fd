"""The process that serves the live page of a run on the loopback interface, at a low priority.

It runs outside the sandbox until the run closes its end of the socket, and receives only events
(``testbed.live.events``). The address contains a random token, without which nothing is served.
Requests of pages from other sites are refused by their Origin header, and other host names that
resolve to this address by their Host header.
"""

import asyncio
import hmac
import json
import logging
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from aiohttp import web

from sfio_emu.adapters.local_users import is_foreign_user
from testbed.emulation.attach.client import send_request
from testbed.emulation.sandbox.process_lifetime import begin_child
from testbed.errors import TestbedError, UsageError
from testbed.live.events import InterimResults, RunEnded, RunView, decode
from testbed.live.metrics import exposition
from testbed.live.page import curves_markup, live_page, policy
from testbed.live.view import LiveState, Update
from testbed.model.naming.printable import printable
from testbed.report.drawing.svg_figures import inlined
from testbed.results.run_folder import read_plain

ADDRESS = "127.0.0.1"
# Nice value. The measured processes have priority (-10 as root, 0 for other users).
LOW = 10
# Time between two updates of the state.
TICK_S = 0.2
# Time between two drawings of the curves.
CURVES_S = 1.0
# Largest message of the run, in bytes.
MAX_MESSAGE = 1 << 20
# Updates that wait for a slow page. Further ones are dropped, because the next has all values.
BACKLOG = 50
# Longest time in which pages may receive the last updates.
FAREWELL_S = 1.0
# Largest number of open pages and of connections. Each takes a descriptor and memory during the
# run.
MAX_PAGES = 16
MAX_CONNECTIONS = 64
# Largest number of connections from other users of this machine, so that they cannot take all.
MAX_FOREIGN = 16
# Connections that wait to be accepted.
_QUEUE = 128
# Longest time without a request on a connection, and without a page reading its updates.
PATIENCE_S = 10.0
# Acknowledges to the run that the pages have received its end.
REPORTED = b"told"
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class LiveServer:
    """Serves the page of one run, whose events arrive on a socket, one per message."""

    def __init__(self, events: socket.socket, token: str) -> None:
        self._events = events
        self._token = token
        self._view = LiveState()
        self._pages: set[asyncio.Queue[Update | None]] = set()
        self._hosts: frozenset[str] = frozenset()
        self._over = asyncio.Event()
        self._changed = False
        self._silent: set[web.RequestHandler] = set()
        self._foreign: set[web.RequestHandler] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve the page, and yield its address."""
        app = web.Application(middlewares=[self._guarded])
        app.router.add_get("/{token}/", self._page)
        app.router.add_get("/{token}/events", self._stream)
        app.router.add_get("/{token}/metrics", self._metrics)
        app.router.add_post("/{token}/cable", self._set_cable)
        runner = web.AppRunner(
            app,
            handle_signals=False,
            access_log=None,
            shutdown_timeout=FAREWELL_S,
            keepalive_timeout=PATIENCE_S,
        )
        await runner.setup()
        listening = socket.create_server((ADDRESS, 0), backlog=_QUEUE)
        listening.setblocking(False)
        accepting = asyncio.create_task(self._accept(listening, runner))
        try:
            port = listening.getsockname()[1]
            self._hosts = frozenset((f"{ADDRESS}:{port}", f"localhost:{port}"))
            yield f"http://{ADDRESS}:{port}/{self._token}/"
        finally:
            accepting.cancel()
            listening.close()
            await runner.cleanup()

    async def _accept(self, listening: socket.socket, runner: web.AppRunner) -> None:
        """Accept connections, and close those beyond the limits at once."""
        assert runner.server is not None
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(listening)
            except OSError:  # no descriptor is available
                await asyncio.sleep(TICK_S)
                continue
            foreign = is_foreign_user(sock)
            self._foreign = {each for each in self._foreign if each.transport is not None}
            full = len(runner.server.connections) >= MAX_CONNECTIONS
            if full or (foreign and len(self._foreign) >= MAX_FOREIGN):
                sock.close()
                continue
            handler = runner.server()
            if foreign:
                self._foreign.add(handler)
            self._silent.add(handler)
            loop.call_later(PATIENCE_S, self._drop_silent, handler)
            with suppress(OSError):
                await loop.connect_accepted_socket(partial(_same, handler), sock)

    def _drop_silent(self, handler: web.RequestHandler) -> None:
        if handler in self._silent and handler.transport is not None:
            handler.transport.abort()
        self._silent.discard(handler)

    async def until_over(self) -> None:
        """Receive events and update the pages, until the run closes the socket."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._events.fileno(), self._take)
        ticking = asyncio.gather(self._tick(), self._draw())
        await self._over.wait()
        loop.remove_reader(self._events.fileno())
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking
        if self._view.ended is None:
            self._tell(self._view.apply(RunEnded(outcome="it was interrupted")))
        await self._farewell()

    def _take(self) -> None:
        try:
            message = self._events.recv(MAX_MESSAGE)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self._over.set()
            return
        try:
            event = decode(message)
        except UsageError:
            return
        if isinstance(event, RunEnded):
            event = replace(event, html=_page_text(event.page))
        reported = self._view.apply(event)
        self._changed = True
        if isinstance(event, RunView | InterimResults | RunEnded):
            self._tell(reported)
        if isinstance(event, RunEnded):
            asyncio.get_running_loop().create_task(self._answer())

    async def _answer(self) -> None:
        """Tell the run, which waits for it, that the pages have received its end."""
        await self._farewell()
        with suppress(OSError):
            self._events.send(REPORTED)

    async def _farewell(self) -> None:
        """Wait until every page has received its updates, for at most ``FAREWELL_S``."""
        for page in self._pages:
            with suppress(asyncio.QueueFull):
                page.put_nowait(None)
        for _ in range(int(FAREWELL_S / 0.02)):
            if not self._pages:
                return
            await asyncio.sleep(0.02)

    def _shown(self) -> bool:
        return bool(self._pages) and self._view.view is not None and self._view.ended is None

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            if self._changed and self._shown():
                self._changed = False
                self._tell((self._view.state(),))

    async def _draw(self) -> None:
        """Draw the curves in a thread, because loads and faults are updated meanwhile."""
        while True:
            await asyncio.sleep(CURVES_S)
            if self._shown():
                drawn = await asyncio.to_thread(
                    curves_markup, self._view.session(), [*self._view.history]
                )
                self._tell((Update(name="curves", data={"html": str(drawn)}),))

    def _tell(self, messages: tuple[Update, ...]) -> None:
        for page in self._pages:
            for message in messages:
                with suppress(asyncio.QueueFull):
                    page.put_nowait(message)

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse requests with another host name or origin (403) and with another token (404)."""
        self._silent.discard(request.protocol)
        origin = request.headers.get("Origin")
        if request.headers.get("Host") not in self._hosts or (
            origin is not None and origin != f"http://{request.headers['Host']}"
        ):
            return _refusal(403, "This page is for its own address only.")
        if not hmac.compare_digest(
            request.match_info.get("token", "").encode(), self._token.encode()
        ):
            return _refusal(404, "There is nothing here.")
        return await handler(request)

    async def _page(self, _: web.Request) -> web.StreamResponse:
        title = self._view.view.title if self._view.view is not None else "A run"
        headers = HEADERS | {"Content-Security-Policy": policy()}
        return web.Response(
            text=live_page(title), content_type="text/html", charset="utf-8", headers=headers
        )

    async def _metrics(self, _: web.Request) -> web.StreamResponse:
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return web.Response(body=exposition(self._view), headers=HEADERS | {"Content-Type": kind})

    async def _set_cable(self, request: web.Request) -> web.StreamResponse:
        """Cut or repair the cables of a link of the page, in a network that takes requests.

        Requests from anywhere but the page itself are refused (403).
        """
        view = self._view.view
        if "Origin" not in request.headers or view is None or not view.control:
            return web.Response(
                status=403, text="Only the page itself cuts cables.\n", headers=HEADERS
            )
        try:
            document = json.loads(await request.text())
            link = next(each for each in view.links if each.label == document["link"])
            header = {
                "do": "set cables",
                "a": link.source,
                "b": link.target,
                "up": bool(document["up"]),
            }
            await asyncio.to_thread(send_request, view.control, header)
        except (
            ValueError,
            LookupError,
            TypeError,
            StopIteration,
            RecursionError,
            TestbedError,
        ) as error:
            return web.Response(status=400, text=f"{printable(error)}\n", headers=HEADERS)
        return web.Response(status=204, headers=HEADERS)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if len(self._pages) >= MAX_PAGES:
            return web.Response(
                status=503,
                text="Too many pages of this run are open; close one.\n",
                headers=HEADERS,
            )
        response = web.StreamResponse(headers=HEADERS | {"Content-Type": "text/event-stream"})
        await response.prepare(request)
        queue: asyncio.Queue[Update | None] = asyncio.Queue(BACKLOG)
        for known in self._view.replay():
            queue.put_nowait(known)
        self._pages.add(queue)
        try:
            while (message := await queue.get()) is not None:
                written = f"event: {message.name}\ndata: {json.dumps(message.data)}\n\n"
                async with asyncio.timeout(PATIENCE_S):
                    await response.write(written.encode())
                if message.name == "ended":
                    break
        except (
            ConnectionError,
            TimeoutError,
        ):  # The page has disconnected or does not read: another may connect.
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._pages.discard(queue)
        return response


def _same(handler: web.RequestHandler) -> web.RequestHandler:
    return handler


def _refusal(status: int, text: str) -> web.Response:
    """Return an answer after which the connection is closed, so that others can connect."""
    response = web.Response(status=status, text=f"{text}\n", headers=HEADERS)
    response.force_close()
    return response


def _page_text(path: str) -> str:
    """Return the HTML of the stored page of the run, or an empty text if it cannot be read.

    Open pages show it at the end, and stay readable without the server.
    """
    try:
        return read_plain(Path(path)).decode() if path else ""
    except (OSError, ValueError, TestbedError):
        return ""


async def _serve(events: socket.socket) -> None:
    server = LiveServer(events, secrets.token_urlsafe(24))
    async with server.serving() as address:
        with suppress(ConnectionError):  # the run has been killed
            events.send(address.encode())
            await server.until_over()


def main(descriptor: int) -> None:
    """Serve the events of the socket with this descriptor until its other end is closed."""
    begin_child(LOW)
    # Errors in requests of others are not shown on the terminal of the run.
    logging.getLogger("aiohttp").addHandler(logging.NullHandler())
    logging.getLogger("aiohttp").propagate = False
    # This imports matplotlib before the run continues, so that the import does not disturb it.
    inlined("", dict)
    events = socket.socket(fileno=descriptor)
    events.setblocking(False)
    asyncio.run(_serve(events))


if __name__ == "__main__":
    main(int(sys.argv[1]))
