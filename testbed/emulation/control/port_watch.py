"""Passes port changes on as soon as they reach the controller, in a thread of its own."""

import threading
from collections.abc import Callable

from testbed.emulation.control.controller_link import ControllerLink, PortEvent
from testbed.errors import TestbedError

_QUIET_S = 0.03


class PortWatch:
    """Calls ``on_port`` with each port event from ``start`` on, and ``on_quiet`` whenever there was none for 30 ms;
    nobody else may ask the controller meanwhile but these two."""

    def __init__(
        self, controller: ControllerLink, on_port: Callable[[PortEvent], None], on_quiet: Callable[[], None]
    ) -> None:
        self._controller, self._on_port, self._on_quiet = controller, on_port, on_quiet
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
                events = self._controller.port_events_after(self._known, _QUIET_S)
                for event in events:
                    self._known += 1
                    self._on_port(event)
                if not events:
                    self._on_quiet()
        except TestbedError as error:
            self._error = error
