"""A Dask worker as a machine of its own on this one: waits until its interface is there, then serves its scheduler.

local_worker.py SCHEDULER NAME ADDRESS       runs in the machine's namespaces; a line on stdin says that the interface
                                             is up, and holds the worker's certificate and key (JSON), which are in no
                                             file
"""

import asyncio
import json
import logging
import os
import sys

from testbed.emulation.sandbox.process_lifetime import begin_child


async def serve(scheduler: str, name: str, address: str, certificate: str, key: str) -> None:
    """Until the scheduler goes."""
    from distributed import Security, Worker

    # the client is the worker's, for scheduler and other workers
    roles = {
        f"tls_{role}_{part}": pem
        for role in ("worker", "client")
        for part, pem in (("cert", certificate), ("key", key))
    }
    async with Worker(
        scheduler,
        protocol="tls",
        security=Security(require_encryption=True, tls_ca_file=certificate, **roles),
        name=name,
        host=address,
        nthreads=1,
        dashboard=False,
        local_directory=os.environ["TMPDIR"],
        memory_limit=0,
    ) as worker:
        await worker.finished()


def main() -> None:
    begin_child()
    logging.disable(logging.CRITICAL)
    import distributed  # noqa: F401 - meanwhile the interface is made

    line = sys.stdin.readline()
    if line:
        asyncio.run(serve(*sys.argv[1:4], *json.loads(line)))


if __name__ == "__main__":
    main()
