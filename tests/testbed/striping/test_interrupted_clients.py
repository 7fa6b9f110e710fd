"""A run that is interrupted while its clients wait for a listener ends at once, not when the listener is given up."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from sfio_emu.errors import SfioError
from testbed.striping.access import Blocks
from testbed.striping.emulated.clients import Client, Reach, close_all
from tests.helpers.faulty_disk import Disk
from tests.helpers.listeners import Addresses, listening

PATIENCE_S = 20.0


def waiting(
    folder: Path, addresses: Addresses, disk: Disk
) -> tuple[list[Client], list[threading.Thread]]:
    """Two clients, each in a call to a disk that stands still."""
    reach = Reach(
        addresses=addresses, timeout_s=PATIENCE_S, open_socket=lambda node, host: socket.socket()
    )
    placement = SimpleNamespace(compute=("c0",), file_name=lambda: "p1/a")
    plan: Any = SimpleNamespace(
        placement=placement, options=SimpleNamespace(stripe_unit=75), file_bytes=100
    )
    blocks = Blocks(offsets=np.zeros(1, dtype=np.int64), sizes=np.full(1, 100, dtype=np.int64))
    data = np.ones(100, dtype=np.uint8)
    clients = [
        Client(rank=0, node=name, blocks=blocks, data=data, reach=reach) for name in ("c0", "c1")
    ]
    for client in clients:
        client.open(f"unix:{folder}/{client.node}", plan)  # each a group of its own
    disk.gate.clear()

    def act(client: Client) -> None:
        with suppress(SfioError):  # its connections are shut under it
            client.carry_out("write", optimised=True)

    threads = [threading.Thread(target=act, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    assert disk.entered.wait(5)
    time.sleep(0.2)
    return clients, threads


def seconds_of(act: Callable[[], object]) -> float:
    start_s = time.monotonic()
    act()
    return time.monotonic() - start_s


def test_clients_that_are_in_a_call_are_closed_at_once(tmp_path: Path) -> None:
    disk = Disk()
    with listening(tmp_path, subfiles=disk.subfiles) as addresses:
        clients, threads = waiting(tmp_path, addresses, disk)
        try:
            assert seconds_of(lambda: close_all(clients)) < PATIENCE_S / 4
            for thread in threads:
                thread.join(PATIENCE_S / 4)
                assert not thread.is_alive()
        finally:
            disk.gate.set()


def test_to_close_alone_would_wait_for_the_call(tmp_path: Path) -> None:
    disk = Disk()
    with listening(tmp_path, subfiles=disk.subfiles) as addresses:
        clients, threads = waiting(tmp_path, addresses, disk)
        threading.Timer(1.5, disk.gate.set).start()
        assert seconds_of(clients[0].close) > 1.0, "the rival: what the run did before"
        for thread in threads:
            thread.join()
        close_all(clients)
