"""``testbed up --machines``: what is said of a network over several machines, and how its prompt ends with them."""

import os
import shlex
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from testbed.errors import MachineDiedError
from testbed.model.naming.printable import printable

if TYPE_CHECKING:
    from testbed.machines.adapters.distributed_network import DistributedNetwork

_LOOK_S = 0.2


def banner(spread: "DistributedNetwork", seconds: float, name: str) -> str:
    """What is up, which part each machine has, and how a host is entered."""
    wiring = spread.wiring
    lines = [
        f"{wiring.network.name}: {len(wiring.hosts)} hosts, {len(wiring.switches)} switches (in user space), "
        f"{len(wiring.cables)} cables, {len(spread.placement.crossing(wiring))} of them between machines, "
        f"up in {seconds:.1f} s"
    ]
    for number, (machine, facts) in enumerate(zip(spread.machines.names, spread.machines.facts, strict=True)):
        switches = [s.node for s in wiring.switches if spread.machine_of(s.node) == number]
        hosts = [f"{h.node} {h.ip}" for h in wiring.hosts if spread.machine_of(h.node) == number]
        lines.append(f"{machine} ({facts.address}): switches {_some(switches)}; hosts {_some(hosts)}")
    first = wiring.hosts[0].node if wiring.hosts else wiring.switches[0].node
    lines.append(
        f"a program in a host: testbed exec {name} {shlex.quote(first)} -- ip address; "
        f"a prompt elsewhere: testbed attach {name}; here "
        "help lists the commands, names the nodes, and the end of the input takes the network down"
    )
    return "\n".join(printable(line) for line in lines)


def _some(names: Sequence[str]) -> str:
    most = 8
    return (", ".join(names[:most]) or "none") + (f" and {len(names) - most} more" if len(names) > most else "")


@contextmanager
def ended_with_machines(spread: "DistributedNetwork", close: Callable[[], None]) -> Iterator[None]:
    """Meanwhile a machine that dies ends the prompt: the doors close, and whatever this thread waits for is
    interrupted."""
    ended, lost = threading.Event(), list[MachineDiedError]()

    def look() -> None:
        while not ended.wait(_LOOK_S):
            try:
                spread.machines.check()
            except MachineDiedError as error:
                lost.append(error)
                close()
                os.kill(os.getpid(), signal.SIGINT)
                return

    watch = threading.Thread(target=look, name="watch over machines", daemon=True)
    watch.start()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        if not lost:
            raise
    finally:
        ended.set()
        watch.join()
    if lost:
        lost[0].measured = {"machine": spread.machines.names[lost[0].number]}
        raise lost[0]
