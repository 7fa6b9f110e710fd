"""The process that holds one machine's part of a network: takes requests from a socket, a thread a lane, until the
socket closes.

    machine_process.py DESCRIPTOR NAME

It is not the Dask worker itself: nothing that a switch or a sender does may wait for another program's event loop.
"""

import os
import pickle
import queue
import socket
import struct
import sys
import threading

from testbed.emulation.sandbox.process_lifetime import begin_child
from testbed.machines.rpc import MAIN, Answer, MachineState, Request

FRAME = struct.Struct("!QI")
"""Number of the request, bytes of what follows."""


def main() -> None:
    """Perform what is asked; ends when whoever requests does."""
    begin_child()
    sock = socket.socket(fileno=int(sys.argv[1]))
    lanes = _Lanes(MachineState(name=sys.argv[2]), sock)
    threading.Thread(target=_read, args=(sock, lanes), name="requests", daemon=True).start()
    lanes.serve(MAIN)


class _Lanes:
    def __init__(self, machine: MachineState, sock: socket.socket) -> None:
        self._machine, self._sock = machine, sock
        self._sending = threading.Lock()
        self._queues: dict[str, queue.SimpleQueue[tuple[int, Request]]] = {
            MAIN: queue.SimpleQueue()
        }

    def put(self, number: int, data: bytes) -> None:
        try:
            request: Request = pickle.loads(data)
        except Exception as error:  # noqa: BLE001 - a function that is not there, most likely another version
            self._answer(
                number,
                (
                    None,
                    ("CapabilityError", f"cannot read a request ({error}); same version there?"),
                ),
            )
            return
        lane = request[2]
        if lane not in self._queues:
            self._queues[lane] = queue.SimpleQueue()
            threading.Thread(target=self.serve, args=(lane,), name=lane, daemon=True).start()
        self._queues[lane].put((number, request))

    def serve(self, lane: str) -> None:
        while True:
            number, request = self._queues[lane].get()
            self._answer(number, self._machine.perform(request))

    def _answer(self, number: int, answer: Answer) -> None:
        data = pickle.dumps(answer)
        with self._sending:
            self._sock.sendall(FRAME.pack(number, len(data)) + data)


def _read(sock: socket.socket, lanes: _Lanes) -> None:
    stream = sock.makefile("rb")
    while len(head := stream.read(FRAME.size)) == FRAME.size:
        number, size = FRAME.unpack(head)
        lanes.put(number, stream.read(size))
    os._exit(0)  # whoever requests has gone, and so does everything that was started here


if __name__ == "__main__":
    main()
