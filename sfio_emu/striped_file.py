"""A striped file as a Python object: reads and writes of any buffer at any offset, in place, one block or many.
`StripedFile.open(name, stripe_unit, session=...)`; opening, closing and truncating are collective over the group."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, overload

import numpy as np
import numpy.typing as npt

from sfio_emu import wire
from sfio_emu.client import Message
from sfio_emu.errors import SfioError, UsageError
from sfio_emu.names import SubfileName, parse_file_name
from sfio_emu.pieces import Bytes, StripedPiece, pieces_of
from sfio_emu.ports import Direction
from sfio_emu.requests import Prepared, Requests, make_requests, prepare
from sfio_emu.session import Link, Session
from sfio_emu.settings import Counters, Settings
from sfio_emu.striping import Layout
from sfio_emu.transfer import Stage, pack, read_message, write_message
from sfio_emu.wire import Kind

if TYPE_CHECKING:
    from typing_extensions import Buffer


class StripedFile:
    """An open striped file. `counters` say what its calls have done, `layout` how it lies, `subfiles` where."""

    def __init__(self, subfiles: Sequence[SubfileName], layout: Layout, session: Session) -> None:
        """Use `open`."""
        self.subfiles = tuple(subfiles)
        self.layout = layout
        self.session = session
        self.counters = Counters()
        self.closed = False
        self._sizes = [0] * len(self.subfiles)
        self._position = 0
        self._hosts: dict[str, list[int]] = {}
        for number, subfile in enumerate(self.subfiles):
            self._hosts.setdefault(subfile.host, []).append(number)

    @classmethod
    def open(cls, name: str, stripe_unit: int, *, session: Session | None = None) -> StripedFile:
        """Open (and where missing create) a striped file: collective, a synchronisation point.

        Raises `UsageError` (name, stripe unit, or another process means another file or unit), `ListenerLost`,
        `RemoteFailure`.
        """
        if session is None:
            from sfio_emu.interface import current_session

            session = current_session()
        fault: SfioError | None = None
        file: StripedFile | None = None
        try:
            subfiles = parse_file_name(name)
            file = cls(subfiles, Layout(stripe_unit=stripe_unit, subfiles=len(subfiles)), session)
            file._open_subfiles()
        except SfioError as error:
            fault = error
        session.agree("open", [name, stripe_unit], fault)
        assert file is not None
        return file

    def _open_subfiles(self) -> None:
        for number, subfile in enumerate(self.subfiles):
            self._sizes[number] = self.session.open(subfile, create=True)
            self.session.retain(subfile)

    def close(self) -> None:
        """Close the file: collective, a synchronisation point. Closing again does nothing."""
        if self.closed:
            return
        self.closed = True
        fault: SfioError | None = None
        for subfile in self.subfiles:
            try:
                self.session.release(subfile)
            except SfioError as error:
                fault = fault or error
        self.session.agree("close", [str(subfile) for subfile in self.subfiles], fault)

    def __enter__(self) -> StripedFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        self.closed = True  # the others may never come to a collective close: leave without them
        for subfile in self.subfiles:
            try:
                self.session.release(subfile)
            except SfioError:  # the error on its way says more
                continue

    # --- reading and writing -------------------------------------------------------------------------------------

    def pwrite(self, data: Buffer, offset: int) -> int:
        """Write all bytes of `data` at `offset` of the file; returns their number. Acknowledged: they are in the
        subfiles. Raises `UsageError`, `ListenerLost`, `RemoteFailure` (other subfiles are written nevertheless)."""
        memory = as_bytes(data)
        return self._write(memory, make_requests([offset], [0], [len(memory)]))

    @overload
    def pread(self, target: int, offset: int) -> bytes: ...
    @overload
    def pread(self, target: Buffer, offset: int) -> int: ...
    def pread(self, target: int | Buffer, offset: int) -> bytes | int:
        """Read into the buffer `target` (returns how many bytes, fewer at the end of the file), or as many bytes as
        the number `target` says (returns them)."""
        if isinstance(target, int):
            if target < 0:
                raise UsageError(f"a read of {target} bytes: give 0 or more")
            buffer = bytearray(min(target, max(self.size() - offset, 0)) if target > 1 << 20 else target)
            return bytes(buffer[: self.pread(buffer, offset)])
        memory = as_bytes(target, writable=True)
        return self._read(memory, make_requests([offset], [0], [len(memory)]))[0]

    def pwritev(self, buffers: Sequence[Buffer], offsets: int | Sequence[int]) -> int:
        """Write many buffers in one call: one after the other from an offset, or each at its own.

        Where blocks overlap, the later one of the call wins. Returns the number of bytes.
        """
        memory, places, sizes = span(buffers, writable=False)
        return self._write(memory, make_requests(_each_offset(offsets, sizes), places, sizes))

    def preadv(self, buffers: Sequence[Buffer], offsets: int | Sequence[int]) -> list[int]:
        """Read into many buffers in one call; how many bytes each got."""
        memory, places, sizes = span(buffers, writable=True)
        every = _each_offset(offsets, sizes)
        return self._counts(self._first_missing(memory, make_requests(every, places, sizes)), every, sizes)

    def pwrite_blocks(self, data: Buffer, offsets: npt.ArrayLike, places: npt.ArrayLike, sizes: npt.ArrayLike) -> int:
        """Write blocks of one buffer: `sizes[i]` bytes from byte `places[i]` of `data` to `offsets[i]` of the file."""
        memory = as_bytes(data)
        return self._write(memory, _inside(memory, make_requests(offsets, places, sizes)))

    def pread_blocks(self, target: Buffer, offsets: npt.ArrayLike, places: npt.ArrayLike, sizes: npt.ArrayLike) -> int:
        """Read blocks into one buffer; how many bytes in all (a block past the end of the file gets fewer or none)."""
        memory = as_bytes(target, writable=True)
        return sum(self._read(memory, _inside(memory, make_requests(offsets, places, sizes))))

    def write_fragments(self, data: Buffer, offset: int) -> int:
        """Write without any optimisation: one message, one answer, one call of the disk for each fragment."""
        memory = as_bytes(data)
        make_requests([offset], [0], [len(memory)])
        for message, host, size in self._fragment_messages(memory, offset, "write"):
            self._transfer({host: message}, {host: size}, "write", _PLAIN)
        return len(memory)

    def read_fragments(self, target: Buffer, offset: int) -> int:
        """Read without any optimisation; how many bytes."""
        memory = as_bytes(target, writable=True)
        make_requests([offset], [0], [len(memory)])
        end = [offset + len(memory)]
        for message, host, size in self._fragment_messages(memory, offset, "read", end):
            self._transfer({host: message}, {host: size}, "read", _PLAIN)
            if end[0] < offset + len(memory):
                break
        return max(end[0] - offset, 0)

    def _fragment_messages(
        self, memory: Bytes, offset: int, direction: Direction, end: list[int] | None = None
    ) -> Iterator[tuple[Callable[[], Iterator[Message]], str, int]]:
        self._require_open()
        stage = Stage()
        ensured_upto = 0
        for part in self.layout.fragments(offset, len(memory)):
            host = self.subfiles[part.subfile].host
            low = part.local_offset
            piece = StripedPiece(self.layout, part.subfile, low, low + part.size, -offset)

            if direction == "write" and not ensured_upto:
                self._ensure_before(offset)
                ensured_upto = 1

            def messages(host: str = host, piece: StripedPiece = piece) -> Iterator[Message]:
                handles = self._handles(host)
                if direction == "write":
                    yield write_message(
                        [piece], memory, handles, stage, self.counters, merge=False, path=self._path_of(host)
                    )
                else:
                    assert end is not None
                    yield read_message(
                        [piece], memory, handles, stage, self.counters, merge=False, path=self._path_of(host),
                        missing=lambda subfile, place: self._note_missing(end, subfile, place),
                    )  # fmt: skip

            yield messages, host, part.size
            if direction == "write":
                self._sizes[part.subfile] = max(self._sizes[part.subfile], low + part.size)

    # --- the size ------------------------------------------------------------------------------------------------

    def size(self) -> int:
        """The size of the file now: the sum of the sizes of its subfiles."""
        self._require_open()
        sizes = [0] * len(self.subfiles)

        def note(number: int) -> Callable[[memoryview], None]:
            def finish(body: memoryview) -> None:
                if len(body) != wire.SIZE.size:
                    raise wire.Malformed("a size that says nothing", fatal=True)
                sizes[number] = wire.SIZE.unpack(body)[0]

            return finish

        self._ask_each(lambda number, handle: Message(Kind.SIZE, wire.HANDLE.pack(handle), finish=note(number)))
        self._sizes = sizes
        return self.layout.logical_size(sizes)

    def truncate(self, size: int) -> None:
        """Make the file `size` bytes long, shorter or (with zeros) longer: collective."""
        fault: SfioError | None = None
        try:
            self._require_open()
            if not isinstance(size, int) or not 0 <= size <= 2**62:
                raise UsageError(f"a file of {size} bytes: give 0 to 2^62")
        except SfioError as error:
            fault = error
        self.session.agree("truncate", [[str(subfile) for subfile in self.subfiles], size], fault)
        sizes = self.layout.subfile_sizes(size)
        if self.session.group.rank == 0:
            try:
                self._ask_each(
                    lambda number, handle: Message(
                        Kind.RESIZE, wire.SIZED.pack(handle, sizes[number]), path=self._path_of_number(number)
                    )
                )
            except SfioError as error:
                fault = error
        self.session.agree("truncate (the change)", [size], fault)
        self._sizes = list(sizes)

    # --- like a file ---------------------------------------------------------------------------------------------

    def tell(self) -> int:
        """The position of `read` and `write` of this process."""
        return self._position

    def seek(self, offset: int, whence: int = 0) -> int:
        """Set the position: from the start (0), from where it is (1), from the end (2)."""
        if whence not in (0, 1, 2):
            raise UsageError(f"whence is {whence!r}: give 0, 1 or 2")
        position = offset + (0, self._position, self.size() if whence == 2 else 0)[whence]
        if position < 0:
            raise UsageError(f"a position of {position}: it must be at least 0")
        self._position = position
        return position

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes from the position (all the rest if negative), which goes on by them."""
        if size < 0:
            size = max(self.size() - self._position, 0)
        result = self.pread(size, self._position)
        self._position += len(result)
        return result

    def readinto(self, buffer: Buffer) -> int:
        """Read into a buffer from the position, which goes on."""
        count = self.pread(buffer, self._position)
        assert isinstance(count, int)
        self._position += count
        return count

    def write(self, data: Buffer) -> int:
        """Write at the position, which goes on."""
        count = self.pwrite(data, self._position)
        self._position += count
        return count

    # --- inside --------------------------------------------------------------------------------------------------

    def _require_open(self) -> None:
        if self.closed:
            raise UsageError(f"the striped file {self.subfiles[0]};... is closed: open it again")

    def _write(self, memory: Bytes, requests: Requests) -> int:
        self._require_open()
        if not len(requests):
            return 0
        settings = self.session.settings
        prepared = prepare(requests, settings, writing=True)
        end = requests.end
        shares = self._shares(prepared.requests)
        ensured = {
            number: self.layout.share(end, number)
            for number in range(len(self.subfiles))
            if self.layout.share(end, number) > self._sizes[number]
        }
        hosts = [h for h, numbers in self._hosts.items() if any(shares[n] or n in ensured for n in numbers)]

        def talk(host: str) -> Callable[[], Iterator[Message]]:
            return lambda: self._write_messages(host, memory, prepared.requests, ensured)

        sizes = {host: sum(shares[number] for number in self._hosts[host]) for host in hosts}
        self._transfer({host: talk(host) for host in hosts}, sizes, "write", settings)
        for number, size in ensured.items():
            self._sizes[number] = max(self._sizes[number], size)
        return requests.total_bytes

    def _write_messages(
        self, host: str, memory: Bytes, requests: Requests, ensured: dict[int, int]
    ) -> Iterator[Message]:
        settings, link, handles = self.session.settings, self.session.link(host), self._handles(host)
        numbers = self._hosts[host]
        due = [(number, ensured[number]) for number in numbers if number in ensured]
        pieces = (
            piece for number in numbers for piece in pieces_of(requests, self.layout, number, merge=settings.merge)
        )
        room = link.limit_bytes - wire.RUN_BYTES * len(due)
        previous = None
        for packed in pack(pieces, room, combine=settings.combine):
            if previous is not None:
                yield self._write_message(host, previous, memory, handles, link, ())
            previous = packed
        yield self._write_message(host, previous or [], memory, handles, link, due)

    def _write_message(self, host, packed, memory, handles, link, due):  # type: ignore[no-untyped-def]
        reached: dict[int, int] = {}
        for piece in packed:
            offsets, sizes = piece.runs()
            reached[piece.subfile] = offsets[-1] + sizes[-1]
        due = [(number, size) for number, size in due if reached.get(number, 0) < size]
        return write_message(
            packed, memory, handles, link.stage, self.counters,
            merge=self.session.settings.merge, path=self._path_of(host), ensured=due,
        )  # fmt: skip

    def _read(self, memory: Bytes, requests: Requests) -> list[int]:
        missing = self._first_missing(memory, requests)
        return self._counts(missing, requests.offsets.tolist(), requests.sizes.tolist()) or [0]

    def _first_missing(self, memory: Bytes, requests: Requests) -> int:
        """Read; where the first byte lies that the file does not have (past all requests where it has them)."""
        self._require_open()
        if not len(requests):
            return 2**63
        settings = self.session.settings
        prepared: Prepared = prepare(requests, settings, writing=False)
        end = [requests.end]
        shares = self._shares(prepared.requests)
        hosts = [host for host, numbers in self._hosts.items() if any(shares[number] for number in numbers)]

        def talk(host: str) -> Callable[[], Iterator[Message]]:
            return lambda: self._read_messages(host, memory, prepared.requests, end)

        sizes = {host: sum(shares[number] for number in self._hosts[host]) for host in hosts}
        self._transfer({host: talk(host) for host in hosts}, sizes, "read", settings)
        for source, target, size in prepared.copies:
            memory[target : target + size] = memory[source : source + size]
        return end[0]

    def _read_messages(self, host: str, memory: Bytes, requests: Requests, end: list[int]) -> Iterator[Message]:
        settings, link, handles = self.session.settings, self.session.link(host), self._handles(host)
        pieces = (
            piece
            for number in self._hosts[host]
            for piece in pieces_of(requests, self.layout, number, merge=settings.merge)
        )
        for packed in pack(pieces, link.limit_bytes, combine=settings.combine):
            yield read_message(
                packed, memory, handles, link.stage, self.counters, merge=settings.merge, path=self._path_of(host),
                missing=lambda subfile, place: self._note_missing(end, subfile, place),
            )  # fmt: skip

    def _note_missing(self, end: list[int], subfile: int, place: int) -> None:
        end[0] = min(end[0], self.layout.logical_offset(subfile, place))

    def _counts(self, missing: int, offsets: list[int], sizes: list[int]) -> list[int]:
        return [max(0, min(size, missing - offset)) for offset, size in zip(offsets, sizes, strict=True)]

    def _shares(self, requests: Requests) -> list[int]:
        """Bytes of the requests on each subfile."""
        unit, count = self.layout.stripe_unit, len(self.subfiles)
        ends = requests.offsets + requests.sizes
        shares = []
        for number in range(count):
            total = 0
            for places, sign in ((ends, 1), (requests.offsets, -1)):
                rounds, rest = np.divmod(places, unit * count)
                total += sign * int((rounds * unit + np.clip(rest - number * unit, 0, unit)).sum())
            shares.append(total)
        return shares

    def _ensure_before(self, offset: int) -> None:
        """Before single fragments are written from `offset`: the file must reach as far as that."""
        due = {
            number: self.layout.share(offset, number)
            for number in range(len(self.subfiles))
            if self.layout.share(offset, number) > self._sizes[number]
        }
        hosts = [host for host, numbers in self._hosts.items() if any(number in due for number in numbers)]

        def talk(host: str) -> Callable[[], Iterator[Message]]:
            return lambda: self._write_messages(host, np.empty(0, np.uint8), make_requests([], [], []), due)

        self._transfer({host: talk(host) for host in hosts}, dict.fromkeys(hosts, 0), "write", _PLAIN)
        for number, size in due.items():
            self._sizes[number] = max(self._sizes[number], size)

    def _handles(self, host: str) -> dict[int, int]:
        link: Link = self.session.link(host)
        return {number: link.handles[self.subfiles[number].path] for number in self._hosts[host]}

    def _transfer(
        self,
        messages: dict[str, Callable[[], Iterator[Message]]],
        sizes: dict[str, int],
        direction: Direction,
        settings: Settings,
    ) -> None:
        faults = []
        for host in list(messages):
            try:
                for number in self._hosts[host]:
                    self.session.handle(self.subfiles[number], create=False)
            except SfioError as fault:
                faults.append(fault)
                del messages[host]
        faults += self.session.transfer(messages, sizes, direction, self.counters, settings)
        if faults:
            raise faults[0]

    def _ask_each(self, message: Callable[[int, int], Message]) -> None:
        asked = {
            host: [message(number, self.session.handle(self.subfiles[number])) for number in numbers]
            for host, numbers in self._hosts.items()
        }
        self.session.ask(asked)

    def _path_of(self, host: str) -> Callable[[int], str]:
        def path(handle: int) -> str:
            for number, known in self._handles(host).items():
                if known == handle:
                    return self.subfiles[number].path
            return "its subfiles"

        return path

    def _path_of_number(self, number: int) -> Callable[[int], str]:
        return lambda _: self.subfiles[number].path


_PLAIN = Settings(sort=False, merge=False, combine=False, pipeline=False)


def as_bytes(buffer: Buffer, *, writable: bool = False) -> Bytes:
    """The bytes of a buffer, in place; raises `UsageError` where that cannot be."""
    try:
        view = memoryview(buffer)
    except TypeError:
        raise UsageError(f"a {type(buffer).__name__} is no buffer: give bytes, a bytearray or an array") from None
    if writable and view.readonly:
        raise UsageError("the buffer to read into is read-only: give a bytearray or a writable array")
    if not view.c_contiguous:
        raise UsageError("the buffer is not contiguous: give a contiguous array, or its parts as blocks")
    if not view.nbytes:
        return np.empty(0, dtype=np.uint8)
    return np.frombuffer(view.cast("B"), dtype=np.uint8)


def span(buffers: Sequence[Buffer], *, writable: bool) -> tuple[Bytes, list[int], list[int]]:
    """Several buffers as places and sizes in one array that reaches from the lowest to the highest of them.

    Only the bytes of the buffers may be touched; the caller keeps them alive.
    """
    arrays = [as_bytes(buffer, writable=writable) for buffer in buffers]
    sizes = [len(array) for array in arrays]
    addresses = [array.__array_interface__["data"][0] if len(array) else 0 for array in arrays]
    used = [address for address, size in zip(addresses, sizes, strict=True) if size]
    if not used:
        return np.empty(0, dtype=np.uint8), [0] * len(sizes), sizes
    low = min(used)
    high = max(address + size for address, size in zip(addresses, sizes, strict=True) if size)
    memory = np.frombuffer((ctypes.c_ubyte * (high - low)).from_address(low), dtype=np.uint8)
    return memory, [address - low if size else 0 for address, size in zip(addresses, sizes, strict=True)], sizes


def _each_offset(offsets: int | Sequence[int], sizes: list[int]) -> list[int]:
    if isinstance(offsets, (int, np.integer)):
        return [int(offsets) + place for place in np.cumsum([0, *sizes[:-1]]).tolist()] if sizes else []
    every = [int(offset) for offset in offsets]
    if len(every) != len(sizes):
        raise UsageError(f"{len(every)} offsets for {len(sizes)} buffers: give one for each")
    return every


def _inside(memory: Bytes, requests: Requests) -> Requests:
    if len(requests) and (
        int(requests.memory.min()) < 0 or int((requests.memory + requests.sizes).max()) > len(memory)
    ):
        raise UsageError(f"a block lies outside the buffer of {len(memory)} bytes: check its place and size")
    return requests


__all__ = ["Session", "StripedFile"]
