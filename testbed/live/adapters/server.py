"""The process that serves a run's live page: on loopback, at a low priority, until the run lets go of its end of the
socket.

It lives outside the sandbox and is told events only (``testbed.live.events``). Whoever does not know the address, which
has a random token in it, learns nothing; a page from elsewhere is refused by its Origin, a name that was made to point
here by its Host.
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
LOW = 10
"""Nice value: what is measured goes first (-10 as root, 0 for others)."""
TICK_S = 0.2
CURVES_S = 1.0
"""Between two drawings of the curves."""
MAX_MESSAGE = 1 << 20
BACKLOG = 50
"""Messages that wait for a slow page; what is more is left out, since the next one says it all again."""
FAREWELL_S = 1.0
MOST_PAGES = 16
"""Open at once; an idle one costs a descriptor and memory as long as the run lasts."""
MOST_CONNECTIONS = 64
# Connections of other users of this machine, so that they cannot use the page up.
MOST_FOREIGN = 16
# Connections that wait to be accepted.
_QUEUE = 128
PATIENCE_S = 10.0
"""For so long a connection may ask for nothing, and a page may not read what it was sent."""
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
    """One run's page. ``events``: the socket from which the run's events come, one a message."""

    def __init__(self, events: socket.socket, token: str) -> None:
        self._events, self._token = events, token
        self._view = LiveState()
        self._pages: set[asyncio.Queue[Update | None]] = set()
        self._hosts: frozenset[str] = frozenset()
        self._over = asyncio.Event()
        self._changed = False
        self._silent: set[web.RequestHandler] = set()
        self._foreign: set[web.RequestHandler] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """The page's address, while it is served."""
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
        """Take connections in, and end those beyond the limits at once."""
        assert runner.server is not None
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(listening)
            except OSError:  # no descriptor is free
                await asyncio.sleep(TICK_S)
                continue
            foreign = is_foreign_user(sock)
            self._foreign = {one for one in self._foreign if one.transport is not None}
            full = len(runner.server.connections) >= MOST_CONNECTIONS
            if full or (foreign and len(self._foreign) >= MOST_FOREIGN):
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
        """Take events and tell pages, until the run lets go of the socket."""
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
        """The run waits for this, so that its end does not come before the pages know."""
        await self._farewell()
        with suppress(OSError):
            self._events.send(REPORTED)

    async def _farewell(self) -> None:
        """Until every page has been sent what waits for it, FAREWELL_S at most."""
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
        """Curves take a while to be drawn: meanwhile loads and faults are reported."""
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
        """403 for another host's name and for another origin, 404 for another token; the same headers on everything."""
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
        """Cut or repair every cable of a link that the page shows, of a network that takes requests; 403 from anywhere
        but the page itself."""
        view = self._view.view
        if "Origin" not in request.headers or view is None or not view.control:
            return web.Response(
                status=403, text="Only the page itself cuts cables.\n", headers=HEADERS
            )
        try:
            asked = json.loads(await request.text())
            link = next(one for one in view.links if one.label == asked["link"])
            header = {
                "do": "set cables",
                "a": link.source,
                "b": link.target,
                "up": bool(asked["up"]),
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
        if len(self._pages) >= MOST_PAGES:
            return web.Response(
                status=503,
                text="Too many pages of this run are open; close one.\n",
                headers=HEADERS,
            )
        response = web.StreamResponse(headers=HEADERS | {"Content-Type": "text/event-stream"})
        await response.prepare(request)
        mine: asyncio.Queue[Update | None] = asyncio.Queue(BACKLOG)
        for known in self._view.replay():
            mine.put_nowait(known)
        self._pages.add(mine)
        try:
            while (message := await mine.get()) is not None:
                written = f"event: {message.name}\ndata: {json.dumps(message.data)}\n\n"
                async with asyncio.timeout(PATIENCE_S):
                    await response.write(written.encode())
                if message.name == "ended":
                    break
        except (
            ConnectionError,
            TimeoutError,
        ):  # gone, or it reads no more: its place is for another
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._pages.discard(mine)
        return response


def _same(handler: web.RequestHandler) -> web.RequestHandler:
    return handler


def _refusal(status: int, text: str) -> web.Response:
    """Return an answer after which the connection ends: its place is for others."""
    response = web.Response(status=status, text=f"{text}\n", headers=HEADERS)
    response.force_close()
    return response


def _page_text(path: str) -> str:
    """The run's own page, for a link that works when the server is gone; nothing where it cannot be read."""
    try:
        return read_plain(Path(path)).decode() if path else ""
    except (OSError, ValueError, TestbedError):
        return ""


async def _serve(events: socket.socket) -> None:
    server = LiveServer(events, secrets.token_urlsafe(24))
    async with server.serving() as address:
        with suppress(ConnectionError):  # whose run this was has been killed meanwhile
            events.send(address.encode())
            await server.until_over()


def main(descriptor: int) -> None:
    """Serve the events of that socket until its other end is closed."""
    begin_child(LOW)
    # What is wrong in others' requests is none of the run's terminal's business.
    logging.getLogger("aiohttp").addHandler(logging.NullHandler())
    logging.getLogger("aiohttp").propagate = False
    inlined("", dict)  # what draws is imported before the run goes on
    events = socket.socket(fileno=descriptor)
    events.setblocking(False)
    asyncio.run(_serve(events))


if __name__ == "__main__":
    main(int(sys.argv[1]))
