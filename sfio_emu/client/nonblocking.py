"""Reads and writes that go on while the program does something else: a request is given, and waited for later.
A thread of the session carries them out; what waits for it at the same time goes over the windows together."""

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
    """A read or write under way. Its buffer belongs to it until `wait` has returned or `test` has said True."""

    def __init__(
        self, access: Access, direction: Direction, job: Job | None, count: Callable[[], int]
    ) -> None:
        """Use `start`. No `job`: nothing to do, done at once."""
        self.access, self.direction, self.job = access, direction, job
        self._count = count
        self._done = Event()
        self._generation = access.session.generation
        if job is None:
            self._done.set()

    def test(self) -> bool:
        """Whether it is done (well or not; `wait` says which)."""
        self._check_process()
        return self._done.is_set()

    def wait(self, timeout_s: float | None = None) -> int:
        """The bytes that were read or written, as the blocking call returns them; raises what that would raise.

        Waits at most `timeout_s`, where it is given, and raises `UsageError` where it is not done by then.
        """
        self._check_process()
        if not self._done.wait(timeout_s):
            raise UsageError(f"the request is not done after {timeout_s:g} s: wait again")
        if self.job is not None and self.job.fault is not None:
            raise self.job.fault
        return self._count()

    def await_end(self) -> None:
        """Return when it is done, however it went; at once in a child of fork, where it never will be."""
        if self._generation == self.access.session.generation:
            self._done.wait(None)

    def finish(self, fault: SfioError | None = None) -> None:
        """It has been carried out, or never will be because of `fault`."""
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
    """A request that the session's thread carries out; `count` gives what `wait` returns."""
    request = Request(access, direction, job, count)
    if job is not None:
        access.session.begun.append(request)
        access.session.in_background(partial(_carry, access.session))
    return request


def _carry(session: Session) -> None:
    """Carry out the requests that have begun, in their order, those of one file and direction that follow one another
    together."""
    requests: list[Request] = [session.begun.popleft() for _ in range(len(session.begun))]
    for (access, direction), same in groupby(
        requests, key=lambda request: (request.access, request.direction)
    ):
        together = list(same)
        fault: SfioError | None = None
        try:
            access.carry(
                direction, [request.job for request in together if request.job is not None]
            )
        except SfioError as error:
            fault = error
        except Exception as error:  # noqa: BLE001 - a request that nobody ends would be waited for for ever
            fault = SfioError(f"the request could not be carried out: {error}")
        for request in together:
            request.finish(fault)


def wait_all(requests: Iterable[Request]) -> list[int]:
    """Wait for all requests; what `wait` gives of each. Raises the first fault when all are done."""
    every = list(requests)
    for request in every:
        request.await_end()
    return [request.wait() for request in every]
