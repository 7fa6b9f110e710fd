"""Process of one machine: holds its part of a network and answers requests from a socket.

    machine_process.py DESCRIPTOR NAME

A lane is a queue of requests with its own thread. The process ends when the socket is closed. It is
not the Dask worker itself, because a switch or a sender must not wait for the event loop of another
program.
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

# Header of a frame: number of the request, and number of the bytes that follow.
FRAME = struct.Struct("!QI")


def main() -> None:
    """Answer requests until the coordinator disconnects."""
    begin_child()
    sock = socket.socket(fileno=int(sys.argv[1]))
    lanes = _Lanes(MachineState(name=sys.argv[2]), sock)
    threading.Thread(target=_read, args=(sock, lanes), name="requests", daemon=True).start()
    lanes.serve(MAIN)


class _Lanes:
    """The queues of requests, one per lane."""

    def __init__(self, machine: MachineState, sock: socket.socket) -> None:
        self._machine = machine
        self._sock = sock
        self._sending = threading.Lock()
        self._queues: dict[str, queue.SimpleQueue[tuple[int, Request]]] = {
            MAIN: queue.SimpleQueue()
        }

    def put(self, number: int, data: bytes) -> None:
        """Put a request into its lane. A request that cannot be unpickled is answered at once."""
        try:
            request: Request = pickle.loads(data)
        except Exception as error:  # noqa: BLE001 - most likely a function of another version
            text = f"cannot read a request ({error}); same version there?"
            self._answer(number, (None, ("CapabilityError", text)))
            return
        lane = request[2]
        if lane not in self._queues:
            self._queues[lane] = queue.SimpleQueue()
            threading.Thread(target=self.serve, args=(lane,), name=lane, daemon=True).start()
        self._queues[lane].put((number, request))

    def serve(self, lane: str) -> None:
        """Answer the requests of a lane until the process ends."""
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
    # The coordinator has disconnected. All programs started here end with this process.
    os._exit(0)


if __name__ == "__main__":
    main()
