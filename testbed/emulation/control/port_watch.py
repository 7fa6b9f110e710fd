"""Passes port changes on as soon as they reach the controller, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from testbed.emulation.control.controller_link import ControllerLink, PortEvent
from testbed.errors import TestbedError

_WAIT_S = 0.2


class PortWatch:
    """Calls ``on_port`` with each port event from ``start`` on; nobody else may ask the controller meanwhile but ``on_port``."""

    def __init__(self, controller: ControllerLink, on_port: Callable[[PortEvent], None]) -> None:
        self._controller, self._on_port = controller, on_port
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="port watch", daemon=True)
        self._error: TestbedError | None = None

    def start(self) -> None:
        """Begin to pass on what happens from now on."""
        self._known = len(self._controller.port_events())
        self._thread.start()

    def stop(self) -> None:
        """Pass nothing more on. May be called twice."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def check(self) -> None:
        """Raise what went wrong, if anything did; after ``stop``."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                for event in self._controller.port_events_after(self._known, _WAIT_S):
                    self._known += 1
                    self._on_port(event)
        except TestbedError as error:
            self._error = error
