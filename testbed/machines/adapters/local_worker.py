"""Runs a Dask worker in the namespaces of a machine on this computer.

    local_worker.py SCHEDULER NAME ADDRESS

The worker waits for a line on standard input, which says that its interface is up. The line is a
JSON list of the worker's certificate and key, so that these are in no file.
"""

import asyncio
import json
import logging
import os
import sys

from testbed.emulation.sandbox.process_lifetime import begin_child


async def serve(scheduler: str, name: str, address: str, certificate: str, key: str) -> None:
    """Run the worker until the scheduler disconnects.

    Args:
        scheduler: Address of the scheduler.
        name: Name of the worker.
        address: IPv4 address that it listens on.
        certificate: Its certificate (PEM).
        key: The key of the certificate (PEM).
    """
    from distributed import Security, Worker

    # The worker is the client in its connections to the scheduler and to other workers.
    security = Security(
        require_encryption=True,
        tls_ca_file=certificate,
        tls_worker_cert=certificate,
        tls_worker_key=key,
        tls_client_cert=certificate,
        tls_client_key=key,
    )
    async with Worker(
        scheduler,
        protocol="tls",
        security=security,
        name=name,
        host=address,
        nthreads=1,
        dashboard=False,
        local_directory=os.environ["TMPDIR"],
        memory_limit=0,
    ) as worker:
        await worker.finished()


def main() -> None:
    """Wait for the certificate, then run the worker."""
    begin_child()
    logging.disable(logging.CRITICAL)
    # The import takes long. Meanwhile the machine gets its interface.
    import distributed  # noqa: F401

    line = sys.stdin.readline()
    if line:
        asyncio.run(serve(*sys.argv[1:4], *json.loads(line)))


if __name__ == "__main__":
    main()
