"""A Dask worker as a machine of its own on this one: waits until its interface is there, then serves its scheduler.

local_worker.py SCHEDULER NAME ADDRESS       runs in the machine's namespaces; a line on stdin says that the interface is up
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys

from testbed.emulation.sandbox.process_life import die_with_parent


async def serve(scheduler: str, name: str, address: str) -> None:
    """Until the scheduler goes."""
    from distributed import Worker

    async with Worker(
        scheduler,
        name=name,
        host=address,
        nthreads=1,
        dashboard=False,
        local_directory=os.environ["TMPDIR"],
        memory_limit=0,
    ) as worker:
        await worker.finished()


def main() -> None:
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.disable(logging.CRITICAL)
    import distributed  # noqa: F401 - meanwhile the interface is made

    if not sys.stdin.readline():
        return
    asyncio.run(serve(*sys.argv[1:4]))


if __name__ == "__main__":
    main()
