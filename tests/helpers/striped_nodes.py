"""I/O nodes in threads of this process, which can be restarted at their addresses, and whose disks can be told to be
full."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

from sfio_emu.adapters.listener import Listener, open_listening_socket
from sfio_emu.adapters.listener_disk import RootedSubfiles
from sfio_emu.listener.ports import CallFailed


class Nodes:
    """Listeners of `hosts`, one thread each, their files below `root`; `full[host]`: bytes its disk still takes (None:
    any)."""

    def __init__(self, root: Path, hosts: tuple[str, ...]) -> None:
        self.root, self.hosts = root, hosts
        self.full: dict[str, int | None] = dict.fromkeys(hosts)
        self.places: dict[str, tuple[str, int]] = {}
        self._running: dict[str, tuple[Listener, threading.Thread]] = {}
        for host in hosts:
            (root / host).mkdir()
            self.start(host)

    def start(self, host: str) -> None:
        """Listen, at the address of the last time if there was one."""
        door = open_listening_socket("127.0.0.1", self.places.get(host, ("", 0))[1])
        self.places[host] = ("127.0.0.1", int(door.getsockname()[1]))
        listener = Listener(
            [(door, self.root / host)], subfiles=lambda root: _Disk(root, self, host)
        )
        thread = threading.Thread(target=listener.serve_forever, daemon=True)
        thread.start()
        self._running[host] = (listener, thread)

    def stop(self, host: str) -> None:
        """End a listener; its connections go."""
        listener, thread = self._running.pop(host)
        listener.close()
        thread.join()

    def close(self) -> None:
        """End all."""
        for host in list(self._running):
            self.stop(host)


class _Disk(RootedSubfiles):
    def __init__(self, root: Path, nodes: Nodes, host: str) -> None:
        super().__init__(root)
        self._nodes, self._host = nodes, host

    def write(self, file: int, piece: memoryview, offset: int) -> int:
        left = self._nodes.full[self._host]
        if left is None:
            return super().write(file, piece, offset)
        if not left:
            raise CallFailed("write", errno.ENOSPC)
        count = super().write(file, piece[:left], offset)
        self._nodes.full[self._host] = left - count
        return count
