"""The process inside the sandbox, which keeps a network running or carries out plans for its owner.

    python -m testbed.api.emulated.sandbox_server LIFELINE

The lifeline is a pair of connected sockets. This process ends when its owner closes the other end,
or is killed (see ``sandbox_client``). LIFELINE is the descriptor of this process's end. The task
arrives over the lifeline as a pickle. That is safe, because both ends are the same program of the
same user.
"""

import os
import pickle
import socket
import sys
from contextlib import ExitStack, suppress

from testbed.emulation.attach.protocol import Frame, checked, error_header, receive, send
from testbed.emulation.attach.server import ControlServer, Handler
from testbed.emulation.sandbox.control_socket import inherited_socket
from testbed.errors import TestbedError
from testbed.model.progress import Progress, ReportProgress
from topologies.text.json_types import JsonObject


def main(lifeline_number: int) -> int:
    """Perform the task until the owner closes its end of the lifeline.

    Returns:
        The exit code: 0, or 1 if the task could not be started.
    """
    lifeline = socket.socket(fileno=lifeline_number)
    lifeline.set_inheritable(False)
    task: JsonObject = pickle.loads(checked(receive(lifeline)).body)
    with ExitStack() as stack:
        try:
            if task["do"] == "work":
                handlers = _plan_handlers()
            else:
                handlers = _session_handlers(task, stack, progress_to(lifeline))
        except Exception as error:  # noqa: BLE001 - the owner raises it, whatever it is
            # The owner may have ended meanwhile.
            with suppress(TestbedError):
                send(lifeline, error_header(error))
            return 1
        listener = inherited_socket()
        assert listener is not None
        server = ControlServer(listener, handlers)
        server.start()
        stack.callback(server.close)
        send(lifeline, {"ready": True, "pid": os.getpid()})
        # This blocks until the owner closes its end of the lifeline, or ends.
        with suppress(TestbedError):
            receive(lifeline)
    return 0


def progress_to(sock: socket.socket) -> ReportProgress:
    """Return a function that sends progress over the socket.

    The function raises a TestbedError if the other end is closed, which ends the run in progress.
    """

    def report(progress: Progress) -> None:
        send(sock, {"progress": [progress.done_s, progress.total_s, progress.doing]})

    return report


def _plan_handlers() -> dict[str, Handler]:
    """Return the handlers of a sandbox without a network; each workload builds what it needs."""

    def run(sock: socket.socket, request: Frame) -> None:
        from testbed.api.workloads.registry import workload_of
        from testbed.model.workload import How

        plan = pickle.loads(request.body)
        measured = workload_of(plan).measured(plan, How(fabric="emulation"), progress_to(sock))
        send(sock, {"done": True}, pickle.dumps(measured))

    return {"run": run}


def _session_handlers(
    task: JsonObject, stack: ExitStack, report_progress: ReportProgress
) -> dict[str, Handler]:
    """Build the network of a session and return the handlers of its requests."""
    from testbed.api.emulated.session_network import SessionNetwork

    report_progress(Progress(doing="building the network"))
    network = stack.enter_context(
        SessionNetwork(task["network"], task["ends"], mtu=task["mtu"], shape=task["shape"])
    )
    return network.handlers(progress_to)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
