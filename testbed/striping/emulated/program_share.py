"""What is on one machine of a program of ``testbed run``: listeners, and the way of its ranks to their group."""

import contextlib
import os
import socket
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sfio_emu.adapters.key_files import write_key
from testbed.emulation.control.remote_controller import copy_both_directions
from testbed.emulation.sandbox.sandbox import require_sandbox
from testbed.errors import InputError
from testbed.machines.adapters.platform import Here, Platform
from testbed.machines.adapters.rpc_network import network_of
from testbed.machines.adapters.stream_forwarding import listen_address
from testbed.machines.rpc import MachineState
from testbed.striping.emulated.listeners import ListenerProcess
from testbed.striping.placement import Placement

_JOIN_S = 30.0


@dataclass(frozen=True, kw_only=True)
class ProgramShare:
    """A machine's part of a program of ``testbed run``: the I/O nodes that lie on it, whose subfiles are below ``root``
    there.

    ``group``: the address at which the coordinator has the group of all ranks.
    """

    placement: Placement
    io: tuple[str, ...]
    root: Path
    key: bytes
    group: str


def start_program_share(machine: MachineState, share: ProgramShare) -> dict[str, str]:
    """Listeners of the I/O nodes that lie here; what every rank here finds in its environment.

    Where the coordinator is elsewhere ranks get a door to the group, whose hosts have no other way to it.
    """
    built, net, listener = machine.objects["built"], network_of(machine), group_listener()
    make_directories(share.root, share.placement)
    if share.io:
        built.callback(ListenerProcess(net, net.wiring, share.io, share.root, key=share.key).close)
    if share.group.startswith("tcp:"):
        listening = built.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listening.bind(str(listener))
        listening.listen(len(share.placement.compute))
        built.callback(listener.unlink, missing_ok=True)
        _, host, port = share.group.split(":")
        threading.Thread(target=_pass_on, args=(listening, (host, int(port))), name="group", daemon=True).start()
    key_file = Path(tempfile.mkdtemp(prefix="key-", dir=require_sandbox() / "tmp")) / "key"
    write_key(key_file, share.key)
    return {
        "SFIO_GROUP": f"unix:{listener}",
        "SFIO_KEY_FILE": str(key_file),
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
        "PYTHONUNBUFFERED": "1",
    }


def group_listener() -> Path:
    """The socket of the group of all ranks, in this machine's sandbox."""
    return require_sandbox() / "tmp" / "group"


def group_address(platform: Platform) -> str:
    """Where the coordinator has the group of all ranks: a socket of this sandbox, or one that other machines reach."""
    if isinstance(platform, Here):
        return f"unix:{group_listener()}"
    return f"tcp:{listen_address(platform.machines.facts[0].address)}:0"


def make_directories(root: Path, placement: Placement) -> None:
    """A directory for each I/O node below ``root``, and its alias next to it; InputError where that cannot be."""
    try:
        for node in placement.io:
            (root / node).mkdir(parents=True, exist_ok=True)
        for alias, node in placement.aliases.items():
            link = root / alias
            if link.is_symlink() or not link.exists():
                link.unlink(missing_ok=True)
                with contextlib.suppress(FileExistsError):  # another machine of the run was quicker
                    link.symlink_to(node)
    except OSError as error:
        raise InputError(f"--subfile-dir {root}: {error.strerror}; choose a directory that can be written") from None


def _pass_on(listening: socket.socket, towards: tuple[str, int]) -> None:
    """Each connection to the door as one to the coordinator."""
    while True:
        try:
            sock, _ = listening.accept()
        except OSError:
            return
        threading.Thread(target=_join, args=(sock, towards), name="group member", daemon=True).start()


def _join(member: socket.socket, towards: tuple[str, int]) -> None:
    with member, suppress(OSError), socket.create_connection(towards, _JOIN_S) as sock:
        sock.settimeout(None)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        copy_both_directions(sock, member.fileno(), member.fileno())
