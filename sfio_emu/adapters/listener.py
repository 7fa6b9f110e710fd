"""The I/O listener: serves the subfiles below a root to any number of clients, in one thread.
`python -m sfio_emu.adapters.listener --subfile-dir DIR --listen [NAME@]HOST:PORT`, or a `Listener` in a thread."""

import argparse
import errno
import ipaddress
import logging
import os
import resource
import select
import socket
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

from sfio_emu import wire
from sfio_emu.adapters.command_line import OneLineParser
from sfio_emu.adapters.key_files import key_from_environment, read_key
from sfio_emu.adapters.listener_clients import DEFAULT_MEMORY_BYTES, DEFAULT_MESSAGE_BYTES, Client, LimitedLog, Limits
from sfio_emu.adapters.listener_disk import OpenFiles, RootedSubfiles
from sfio_emu.adapters.peers.local_users import is_own_user
from sfio_emu.adapters.sockets import watch_peer
from sfio_emu.errors import UsageError
from sfio_emu.listener.connection import Identity, ServerConnection
from sfio_emu.listener.ports import Answer, Thread
from sfio_emu.listener.reader import BufferPool
from sfio_emu.message_bodies import NONCE_BYTES
from sfio_emu.wire import Kind

LOG = logging.getLogger("sfio_emu.listener")
MAX_SILENCE_S = 5.0
MAX_DRAIN_S = 2.0  # how long a refused client may go on sending
TURN_S = 0.02  # after so long whoever else has become ready comes first
TICK_S = 0.25
SLOW_S = 0.5  # a turn that lasts longer is logged


class Listener:
    """Serves clients of the given listening sockets, each with its own directory.

    `sockets`: (listening socket, directory) pairs. `own_user`: only processes of this user on this machine are served.
    A client that holds a buffer others wait for and sends nothing for MAX_SILENCE_S is dropped. `sieve`: many small
    runs near one another are moved as one span. `key`: only who has it is served. `subfiles` makes the disk of a
    directory. `limits`: how much of it clients may take.
    """

    def __init__(
        self,
        sockets: Sequence[tuple[socket.socket, Path]],
        *,
        sieve: bool = True,
        key: bytes | None = None,
        own_user: bool = False,
        limits: Limits | None = None,
        subfiles: Callable[[Path], RootedSubfiles] | None = None,
    ) -> None:
        self._key, self._machine, self._own_user = key, _machine_id(), own_user
        self._limits = Limits.of_process() if limits is None else limits
        self._pool = BufferPool(self._limits.memory_bytes, self._limits.message_bytes)
        self._sieve = sieve
        self._log = LimitedLog()
        self._poll = select.poll()
        self._listening: dict[int, tuple[socket.socket, RootedSubfiles]] = {}
        self._clients: dict[int, Client] = {}
        self._starving: list[int] = []
        self._draining: dict[int, float] = {}
        self._last_tick_s = 0.0
        make = subfiles or partial(RootedSubfiles, open_files=OpenFiles(self._limits.files))
        for listening, directory in sockets:
            listening.setblocking(False)
            self._listening[listening.fileno()] = (listening, make(directory))
            self._poll.register(listening.fileno(), select.POLLIN)
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_reader, False)
        self._poll.register(self._wake_reader, select.POLLIN)
        self._spare = _spare_descriptor()
        self._stopping, self._closing = False, threading.Lock()
        # the thread of the listener owns everything; these only work for it
        self._threads: dict[Thread, ThreadPoolExecutor] = {
            "syncs": ThreadPoolExecutor(1, "syncs"), "names": ThreadPoolExecutor(1, "names")
        }  # fmt: skip
        self._worked: deque[tuple[Client, Answer]] = deque()

    def serve_forever(self) -> None:
        """Serve until `close` is called (from any thread); then everything is closed."""
        try:
            while not self._stopping:
                waits = self._clients or self._starving or self._draining
                self._take_turns(self._poll.poll(1000 * TICK_S if waits else None))
                self._serve_starving()
                if time.monotonic() - self._last_tick_s > TICK_S:
                    self._tick()
        finally:
            self._dispose()

    def close(self) -> None:
        """Let `serve_forever` end."""
        with self._closing:
            if not self._stopping:
                self._stopping = True
                os.write(self._wake_writer, b"x")

    def _dispose(self) -> None:
        for thread in self._threads.values():
            thread.shutdown()
        for number in list(self._clients):
            self._drop(number)
        for listening, subfiles in self._listening.values():
            listening.close()
            subfiles.dispose()
        with self._closing:
            self._stopping = True
            for file in (self._wake_reader, self._wake_writer, self._spare):
                os.close(file)

    def _take_turns(self, ready: list[tuple[int, int]]) -> None:
        """Serve who is ready: those first who have taken least time; who takes long lets others become ready
        meanwhile."""
        clients, began_s = self._clients, time.monotonic()
        if len(ready) > 1:
            ready.sort(key=lambda item: clients[item[0]].used_s if item[0] in clients else 0.0)
        for number, happened in ready:
            if number in self._listening:
                self._accept(*self._listening[number])
            elif number in self._draining:
                self._drain(number)
            elif number in clients:
                self._serve(number, happened)
                if time.monotonic() - began_s > TURN_S:
                    return
            elif number == self._wake_reader:
                self._answer_worked()

    def _tick(self) -> None:
        """What is due now and then: refused clients that go on sending, messages that never end."""
        now_s = self._last_tick_s = time.monotonic()
        for number in [number for number, until_s in self._draining.items() if until_s < now_s]:
            self._drop(number)
        for number, client in list(self._clients.items()):
            client.used_s *= 0.9
            if number not in self._draining and (why := client.too_slow(self._limits, now_s)):
                self._lose(number, why)

    # --- clients come and go ---------------------------------------------------------------------------------------

    def _accept(self, listening: socket.socket, subfiles: RootedSubfiles) -> None:
        try:
            stream, address = listening.accept()
        except OSError as fault:  # the client is gone again, or no descriptor is left: the others are served on
            if fault.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._accept_by_spare(listening, fault)
            return
        peer = f"{address[0]}:{address[1]}"
        if len(self._clients) >= self._limits.clients and not self._make_room():
            self._turn_away(stream, peer, f"{len(self._clients)} clients are served already")
            return
        if self._own_user and not is_own_user(stream):
            self._log.warn("turned away", peer, "not known to be this user's: give --key-file FILE, or --without-key")
            stream.close()
            return
        stream.setblocking(False)
        watch_peer(stream, self._limits.silence_s)
        identity = Identity(nonce=os.urandom(NONCE_BYTES), machine=self._machine, key=self._key)
        connection = ServerConnection(subfiles, self._pool, identity=identity, sieve=self._sieve)
        self._clients[stream.fileno()] = Client(stream, connection, peer)
        self._poll.register(stream.fileno(), select.POLLIN)

    def _accept_by_spare(self, listening: socket.socket, fault: OSError) -> None:
        """No descriptor is left: take the spare one to accept and refuse, or the client would knock permanently."""
        os.close(self._spare)
        self._spare = -1
        try:
            stream, address = listening.accept()
        except OSError:
            self._spare = _spare_descriptor()
            time.sleep(0.01)  # nothing to be done: do not spin
            return
        self._turn_away(stream, f"{address[0]}:{address[1]}", f"no descriptor is left for a client ({fault.strerror})")

    def _turn_away(self, stream: socket.socket, peer: str, why: str) -> None:
        """Tell a client why it is not served. Its connection is the spare descriptor until the next one takes its
        place: closed at once, the kernel would reset it before the reason is read."""
        self._log.warn("turned away", peer, why)
        with suppress(OSError):
            stream.setblocking(False)
            stream.send(wire.encode_header(Kind.REFUSED, 0, f"it serves no more clients: {why}".encode()))
            stream.shutdown(socket.SHUT_WR)
        with suppress(OSError):
            os.close(self._spare)
        self._spare = stream.detach()

    def _make_room(self) -> bool:
        """Drop the client that has been here longest without ever sending a whole message; whether there was one."""
        for number, client in self._clients.items():
            if not client.greeted and number not in self._draining:
                self._lose(number, "it has said nothing, and others wait")
                return True
        return False

    def _lose(self, number: int, why: str) -> None:
        """Drop a client that did not end its connection itself, and say so."""
        self._log.warn("lost", self._clients[number].peer, why)
        self._drop(number)

    def _drop(self, number: int) -> None:
        client = self._clients.pop(number)
        self._draining.pop(number, None)
        self._poll.unregister(number)
        client.connection.abandon()
        client.stream.close()

    # --- serving -----------------------------------------------------------------------------------------------------

    def _serve(self, number: int, happened: int) -> None:
        client = self._clients[number]
        if happened & (select.POLLHUP | select.POLLERR) and not client.events:  # it waits here, and nobody there
            self._lose(number, "it has gone before it was answered")
            return
        began_s = client.active_s = time.monotonic()
        try:
            events = client.move(self._pool, gone=bool(happened & select.POLLRDHUP))
            if client.connection.closed and not events:  # refused with a reason
                client.stream.shutdown(socket.SHUT_WR)
                self._draining[number] = time.monotonic() + MAX_DRAIN_S
                events = select.POLLIN
        except OSError as fault:
            self._log.warn("lost", client.peer, f"{fault.strerror or fault}")
            events = 0
        except Exception:  # no mistake made for one client may end the service of the others
            LOG.exception("a connection is ended: its request could not be carried out")
            events = 0
        finally:
            lasted_s = time.monotonic() - began_s
            client.used_s += lasted_s
            if lasted_s > SLOW_S:
                self._log.warn("served", client.peer, f"it took {lasted_s:.1f} s: the disk is slow, or was stopped")
        self._after_serving(number, client, events)

    def _after_serving(self, number: int, client: Client, events: int) -> None:
        connection = client.connection
        if connection.refusal:
            self._log.warn("refused a message of", client.peer, connection.refusal)
            connection.refusal = ""
        pending, connection.pending = connection.pending, None
        if pending is not None:
            client.syncing = True
            self._threads[pending.thread].submit(self._work, client, pending)
        if not events and not connection.reader.starved and not client.syncing:
            if connection.reader.mid_message and not connection.closed:
                self._log.warn("lost", client.peer, "it has gone in the middle of a message")
            self._drop(number)
            return
        if connection.reader.starved:
            self._starving.append(number)
        if events != client.events:
            client.events = events
            self._poll.modify(number, events)

    def _serve_starving(self) -> None:
        """Serve clients that wait for a buffer, the longest waiting first; drop silent ones that hold a buffer
        meanwhile."""
        waiting, self._starving = self._starving, []
        for place, number in enumerate(waiting):
            if number not in self._clients:
                continue
            self._serve(number, 0)
            if self._starving:
                self._starving = [number, *waiting[place + 1 :]]
                break
        if self._starving:
            now_s = time.monotonic()
            for number, client in list(self._clients.items()):
                if client.connection.reader.holds_buffer and now_s - client.active_s > MAX_SILENCE_S:
                    self._lose(number, f"it holds a buffer that others wait for and was silent for {MAX_SILENCE_S:g} s")

    def _drain(self, number: int) -> None:
        """Throw away what a refused client still sends: closed too early, the kernel would reset it before it has read
        why."""
        try:
            if not self._clients[number].stream.recv_into(self._pool.scratch):
                self._drop(number)
        except BlockingIOError:
            return
        except OSError:
            self._drop(number)

    # --- next to the one thread ---------------------------------------------------------------------------------------

    def _work(self, client: Client, pending: Answer) -> None:
        """In one of the other threads."""
        assert pending.work is not None
        self._worked.append((client, pending.work()))
        os.write(self._wake_writer, b"s")

    def _answer_worked(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._wake_reader, 4096)
        while self._worked:
            client, answer = self._worked.popleft()
            client.syncing = False
            client.connection.answer(answer)
            number = client.stream.fileno()
            if self._clients.get(number) is client:
                self._serve(number, 0)


def _spare_descriptor() -> int:
    return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


def _machine_id() -> bytes:
    """16 bytes that listeners on this machine have in common, and others do not."""
    with suppress(OSError, ValueError):
        return uuid.UUID(Path("/proc/sys/kernel/random/boot_id").read_text().strip()).bytes
    return os.urandom(16)


def open_listening_socket(address: str, port: int) -> socket.socket:
    """A listening TCP socket."""
    return socket.create_server((address, port), backlog=256)


def _work_in_batches() -> None:
    """Where a client shares the processor, let it fill a socket before this process wakes: a sixth more throughput."""
    with suppress(OSError):  # a sandbox may forbid it; nothing but speed is lost
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _parse_listen(text: str) -> tuple[str, str, int]:
    name, _, place = text.rpartition("@")
    address, colon, port = place.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535 or "/" in name or name in (".", ".."):
        raise argparse.ArgumentTypeError(f"{text!r} is no [NAME@]HOST:PORT")
    return name, address, int(port)


def _size(text: str, *, most: int = wire.MAX_LIMIT) -> int:
    """Bytes of an option; that of the wrong one is named by the parser."""
    if not (text.isascii() and text.isdigit() and wire.MIN_LIMIT <= int(text) <= most):
        bounds = f"{wire.MIN_LIMIT} to {most}".replace(str(2**62), "2^62")
        raise argparse.ArgumentTypeError(f"{text!r} is no size that can be: give bytes, {bounds}")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(prog="python -m sfio_emu.adapters.listener", description=__doc__)
    parser.add_argument("--subfile-dir", "--root", dest="root", type=Path, required=True,
                        help="directory of the subfiles; no path leaves it", metavar="DIR")  # fmt: skip
    parser.add_argument("--listen", type=_parse_listen, action="append", required=True,
                        help="address to serve; with a name its files lie in DIR/NAME; port 0: any free one",
                        metavar="[NAME@]HOST:PORT")  # fmt: skip
    parser.add_argument("--memory", type=partial(_size, most=2**62), default=DEFAULT_MEMORY_BYTES, metavar="BYTES",
                        help="bound of the buffers of all messages together (default: %(default)s)")  # fmt: skip
    parser.add_argument("--message", type=_size,
                        help=f"largest message (default: {DEFAULT_MESSAGE_BYTES}, or --memory where that is less)",
                        metavar="BYTES")  # fmt: skip
    parser.add_argument("--no-sieve", dest="sieve", action="store_false",
                        help="move each run by a call of its own, also many small ones near one another")  # fmt: skip
    key = parser.add_mutually_exclusive_group()
    key.add_argument("--key-file", type=Path, metavar="FILE",
                     help="serve only who has the key in FILE, in hexadecimal digits (default: that of SFIO_KEY_FILE, "
                     "without one only this user's processes on this machine)")  # fmt: skip
    key.add_argument("--without-key", action="store_true", help="serve everybody, beyond this machine too")
    return parser


def _key_of(options: argparse.Namespace) -> bytes | None:
    """The key to ask for; raises `UsageError` where strangers could reach the listener and none is given."""
    if options.without_key:
        return None
    key = read_key(options.key_file) if options.key_file else key_from_environment()
    for _, address, _ in options.listen if key is None else ():
        if not _is_loopback(address):
            raise UsageError(
                f"everybody who reaches {address} could read and delete files: give --key-file FILE, or --without-key"
            )
    return key


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until killed; one line "listening [NAME@]HOST:PORT" on stdout for each address when all are ready."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    parser = _parser()
    options = parser.parse_args(arguments)
    if (options.message or 0) > options.memory:
        parser.error(
            f"--message {options.message} does not fit into --memory {options.memory}: make one larger or smaller"
        )
    _raise_descriptors()
    try:
        key = _key_of(options)
        sockets = [
            (open_listening_socket(address, port), options.root / name) for name, address, port in options.listen
        ]
        limits = Limits.of_process(options.memory, options.message or DEFAULT_MESSAGE_BYTES)
        listener = Listener(
            sockets, sieve=options.sieve, key=key, own_user=key is None and not options.without_key, limits=limits
        )
    except (OSError, ValueError, TypeError) as fault:
        print(f"the listener cannot start: {fault}", file=sys.stderr)
        return 2
    for (name, address, _), (listening, _) in zip(options.listen, sockets, strict=True):
        print(f"listening {name + '@' if name else ''}{address}:{listening.getsockname()[1]}", flush=True)
    _work_in_batches()
    with suppress(KeyboardInterrupt):
        listener.serve_forever()
    return 0


def _raise_descriptors() -> None:
    """As many open files as the system lets this process have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    sys.exit(main())
