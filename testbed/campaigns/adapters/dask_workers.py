"""Dask workers for points and units: processes of this machine that end with it, or those of a scheduler elsewhere."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from testbed.emulation.sandbox.process_lifetime import spawned_children
from testbed.errors import CapabilityError
from testbed.machines.adapters.clusters.dask_security import local_cluster, quiet_dask

if TYPE_CHECKING:
    from distributed import Client, Security

T = TypeVar("T")
R = TypeVar("R")
CONNECT_S = 15.0
FIRST_WORKER_S = 60.0
LOST_WORKERS = 100
"""A unit runs again so many times after its worker was lost: only one that kills workers by itself would reach it."""


@contextmanager
def dask_client(
    workers: int, scheduler: str | None, security: "Security | None" = None
) -> "Iterator[Client]":
    """A client of ``workers`` processes here, or of the scheduler at that address. Raises CapabilityError where it
    cannot be reached.

    Other users of the machine reach the ports of processes here: they answer only those with the cluster's own
    certificate. ``security``: for the scheduler elsewhere (``testbed.machines.adapters.clusters.dask_security``), None:
    plain TCP.
    """
    import dask
    from distributed import Client

    quiet_dask(
        {
            "distributed.scheduler.allowed-failures": LOST_WORKERS,
            "distributed.comm.timeouts.connect": CONNECT_S,
        }
    )
    if scheduler is None:
        # workers watch for the end of this process and go with it, kill -9 included
        with (
            spawned_children() as scratch,
            dask.config.set({"temporary-directory": str(scratch)}),
            local_cluster(n_workers=workers, threads_per_worker=1) as cluster,
            Client(cluster) as client,
        ):
            yield client
        return
    try:
        connected = Client(scheduler, timeout=CONNECT_S, security=security)
    except (OSError, ValueError) as error:
        raise CapabilityError(
            f"scheduler {scheduler}: not reached ({type(error).__name__}); start it, 'dask scheduler', or leave it out"
        ) from None
    with connected as client:
        try:
            client.wait_for_workers(1, timeout=FIRST_WORKER_S)
        except TimeoutError:
            raise CapabilityError(
                f"scheduler {scheduler}: it has no worker; start one with 'dask worker {scheduler}'"
            ) from None
        yield client


def shared_out(
    client: "Client",
    compute: Callable[..., R],
    items: Sequence[T],
    say: Callable[[T], str],
    *common: object,
) -> "Iterator[tuple[T, R]]":
    """Each item with what ``compute(*common, item)`` gives, as workers finish. CapabilityError where workers die of
    one, which ``say`` names."""
    from distributed import KilledWorker, as_completed

    given = [[one] * len(items) for one in common]
    futures = dict(
        zip(client.map(compute, *given, items, pure=False, retries=0), items, strict=True)
    )
    try:
        for future in as_completed(list(futures)):
            item = futures[future]
            try:
                found = future.result()
            except KilledWorker:
                raise CapabilityError(
                    f"{say(item)}: {LOST_WORKERS} workers were lost on it; give them more memory"
                ) from None
            yield item, found
            future.release()
    finally:
        client.cancel(list(futures))
