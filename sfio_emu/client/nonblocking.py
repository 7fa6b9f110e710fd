"""Non-blocking reads and writes: a request is started, and waited for later.

A thread of the session carries out the requests. Requests that wait at the same time are
transferred together.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby

from sfio_emu.client.access import Access
from sfio_emu.client.session import Session
from sfio_emu.client.threads import Event
from sfio_emu.client.transfer import Job
from sfio_emu.errors import SfioError, UsageError
from sfio_emu.ports import Direction


class Request:
    """A read or write in progress.

    Its buffer must not be used until `wait` has returned or `test` has returned True.
    """

    def __init__(
        self, access: Access, direction: Direction, job: Job | None, count: Callable[[], int]
    ) -> None:
        """Create a request; call `start` instead.

        Args:
            access: The file.
            direction: Whether it reads or writes.
            job: The read or write. None if there is nothing to transfer; it is then done at once.
            count: Returns the number of transferred bytes, after the request is done.
        """
        self.access = access
        self.direction = direction
        self.job = job
        self._count = count
        self._done = Event()
        self._generation = access.session.generation
        if job is None:
            self._done.set()

    def test(self) -> bool:
        """Return whether the request is done, successfully or not."""
        self._check_process()
        return self._done.is_set()

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait until the request is done, and raise what the blocking call would raise.

        Args:
            timeout_s: The longest time to wait, in seconds; None for no limit.

        Returns:
            The number of bytes that were read or written.

        Raises:
            UsageError: The request is not done after `timeout_s`.
        """
        self._check_process()
        if not self._done.wait(timeout_s):
            raise UsageError(f"the request is not done after {timeout_s:g} s: wait again")
        if self.job is not None and self.job.fault is not None:
            raise self.job.fault
        return self._count()

    def await_end(self) -> None:
        """Wait until the request is done, without raising its error.

        In a child of fork it returns at once, because the request will never be done there.
        """
        if self._generation == self.access.session.generation:
            self._done.wait(None)

    def finish(self, fault: SfioError | None = None) -> None:
        """Mark the request as done.

        Args:
            fault: The error because of which it could not be carried out.
        """
        if self.job is not None:
            self.job.fault = self.job.fault or fault
        self._done.set()

    def _check_process(self) -> None:
        if self._generation != self.access.session.generation:
            raise UsageError(
                "the request was begun before this process was forked: wait for it in the parent"
            )


def start(
    access: Access, direction: Direction, job: Job | None, count: Callable[[], int]
) -> Request:
    """Start a request in the session's thread, with arguments as `Request`."""
    request = Request(access, direction, job, count)
    if job is not None:
        access.session.queued_requests.append(request)
        access.session.in_background(partial(_carry_queued, access.session))
    return request


def _carry_queued(session: Session) -> None:
    """Carry out the started requests in order.

    Consecutive requests of the same file and direction are carried out together.
    """
    requests: list[Request] = [
        session.queued_requests.popleft() for _ in range(len(session.queued_requests))
    ]
    groups = groupby(requests, key=lambda request: (request.access, request.direction))
    for (access, direction), group in groups:
        together = list(group)
        jobs = [request.job for request in together if request.job is not None]
        fault: SfioError | None = None
        try:
            access.carry(direction, jobs)
        except SfioError as error:
            fault = error
        except Exception as error:  # noqa: BLE001
            # Any other error must also finish the requests, or `wait` would never return.
            fault = SfioError(f"the request could not be carried out: {error}")
        for request in together:
            request.finish(fault)


def wait_all(requests: Iterable[Request]) -> list[int]:
    """Wait for all requests, and return the number of bytes of each.

    Raises the first error after all requests are done.
    """
    all_requests = list(requests)
    for request in all_requests:
        request.await_end()
    return [request.wait() for request in all_requests]
