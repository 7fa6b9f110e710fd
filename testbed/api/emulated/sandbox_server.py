"""The process inside the sandbox: holds a network up, or carries out one plan, for the ordinary process that owns it.

    python -m testbed.api.emulated.sandbox_server LIFELINE    descriptor of its end of the lifeline (see ``owner``)

What it is to do comes over the lifeline as a pickled task: both ends are the same program, run by the same user.
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
    """Exit code 0 when the owner has let go; 1 where the task could not be begun."""
    lifeline = socket.socket(fileno=lifeline_number)
    lifeline.set_inheritable(False)
    task: JsonObject = pickle.loads(checked(receive(lifeline)).body)
    with ExitStack() as stack:
        try:
            handlers = (
                _work()
                if task["do"] == "work"
                else _session_network(task, stack, progress_to(lifeline))
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, the owner has to be told
            with suppress(TestbedError):
                send(lifeline, error_header(error))
            return 1
        listener = inherited_socket()
        assert listener is not None
        keeper = ControlServer(listener, handlers)
        keeper.start()
        stack.callback(keeper.close)
        send(lifeline, {"ready": True, "pid": os.getpid()})
        with suppress(TestbedError):
            receive(lifeline)  # until the owner closes its end, or ends
    return 0


def progress_to(sock: socket.socket) -> ReportProgress:
    """Passes progress on; raises where nobody is there any more, which ends what is under way."""

    def report(progress: Progress) -> None:
        send(sock, {"progress": [progress.done_s, progress.total_s, progress.doing]})

    return report


def _work() -> dict[str, Handler]:
    """A sandbox without a network of its own: each workload builds what it needs."""

    def run(sock: socket.socket, request: Frame) -> None:
        from testbed.api.workloads.registry import workload_of
        from testbed.model.workload import How

        plan = pickle.loads(request.body)
        measured = workload_of(plan).measured(plan, How(fabric="emulation"), progress_to(sock))
        send(sock, {"done": True}, pickle.dumps(measured))

    return {"run": run}


def _session_network(
    task: JsonObject, stack: ExitStack, report_progress: ReportProgress
) -> dict[str, Handler]:
    from testbed.api.emulated.session_network import SessionNetwork

    report_progress(Progress(doing="building the network"))
    network = stack.enter_context(
        SessionNetwork(task["network"], task["ends"], mtu=task["mtu"], shape=task["shape"])
    )
    return network.handlers(progress_to)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
