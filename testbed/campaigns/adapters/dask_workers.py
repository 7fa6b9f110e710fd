"""Dask workers that compute the points of a study, or the units of a campaign.

The workers are processes on this machine, or belong to a scheduler that the user started.
"""

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
# Time limits for the connection to a scheduler, and for its first worker.
CONNECT_S = 15.0
FIRST_WORKER_S = 60.0
# Number of workers that may be lost while they compute the same item. Only an item that kills its
# workers, for instance because it needs too much memory, reaches this number.
LOST_WORKERS = 100


@contextmanager
def dask_client(
    workers: int, scheduler: str | None, security: "Security | None" = None
) -> "Iterator[Client]":
    """Connect to new worker processes on this machine, or to a scheduler, and yield the client.

    Other users of this machine can reach the ports of its processes, which therefore accept only
    clients with the certificate of the cluster.

    Args:
        workers: Number of processes on this machine, if there is no scheduler.
        scheduler: Address of the scheduler, or None.
        security: Certificates for the scheduler
            (``testbed.machines.adapters.clusters.dask_security``). None: plain TCP.

    Raises:
        CapabilityError: The scheduler cannot be reached, or has no worker.
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
        # The workers end with this process, even if it is killed.
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
            f"scheduler {scheduler}: not reached ({type(error).__name__}); "
            "start it, 'dask scheduler', or leave it out"
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
    """Compute all items on the workers, and yield each item with its result as soon as it is known.

    Args:
        client: The client of the workers.
        compute: Called on a worker with the common arguments and an item.
        items: The items.
        say: Returns the name of an item for messages.
        *common: The common arguments.

    Raises:
        CapabilityError: Too many workers were lost on an item.
    """
    from distributed import KilledWorker, as_completed

    common_arguments = [[argument] * len(items) for argument in common]
    futures = client.map(compute, *common_arguments, items, pure=False, retries=0)
    item_of_future = dict(zip(futures, items, strict=True))
    try:
        for future in as_completed(list(item_of_future)):
            item = item_of_future[future]
            try:
                result = future.result()
            except KilledWorker:
                raise CapabilityError(
                    f"{say(item)}: {LOST_WORKERS} workers were lost on it; give them more memory"
                ) from None
            yield item, result
            # The result is no longer needed, and may be large.
            future.release()
    finally:
        client.cancel(list(item_of_future))
