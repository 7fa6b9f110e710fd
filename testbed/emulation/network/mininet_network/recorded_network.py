"""Prints the networks that a Mininet program builds, as node-link documents: a program of its own.

    python -m testbed.emulation.network.mininet_network.recorded_network FILE NAME

prints one JSON object: ``document`` and ``notes``, or ``error``. NAME is one of these:

- an entry of the file's ``topos``,
- a Topo class, or a function that creates a network,
- ``__main__``: the file is run as a script.

Values follow NAME as for ``mn --topo`` (``NAME,4,bw=10``). The file is a program and is run, so
call this in a sandbox only.
"""

import ast
import contextlib
import io
import json
import os
import re
import runpy
import signal
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

from mininet.log import lg
from mininet.topo import Topo

from testbed.emulation.network.mininet_network import recording
from topologies import JsonObject, TopologyError, nearest
from topologies.mininet.topo import link_entry, parameters, ported_document

# Name under which the file is run if it is not run as a script.
_MODULE = "topology_file"

# Statements that only Python 2 has.
_PYTHON_2 = re.compile(
    r"^\s*print\s+[^(=\s]|^\s*except [\w., ()]+, \w+:|\bxrange\(|^\s*raise \w+, ", re.MULTILINE
)

# Commands that create cables.
_CABLES = re.compile(
    r"\bip\s+link\s+add\b.*\btype\s+veth\b|\bovs-vsctl\b.*\badd-port\b|\bbrctl\s+addif\b"
)

# Commands that a note lists, and characters of each.
_MAX_COMMANDS = 3
_COMMAND_CHARACTERS = 70

# The subnet from which Mininet chooses addresses unless the program says otherwise.
_USUAL_SUBNET = "10.0.0.0/8"

# Time that a program may take after it has started its network.
_AFTER_START_S = 3.0

# Parameters of one end of a link that are taken over.
_INTERFACE_PARAMETERS = (
    "bw",
    "delay",
    "jitter",
    "loss",
    "max_queue_size",
    "latency_ms",
    "enable_ecn",
    "enable_red",
)


def read(path: Path, requested: str, requests: recording.RecordedRequests) -> JsonObject:
    """Run a file, and return the node-link document of the network that it builds.

    Args:
        path: The file.
        requested: NAME, with its values.
        requests: The requests in which the network is recorded.

    Raises:
        TopologyError: There is no such network; the message is one line.
    """
    text = path.read_text(encoding="utf-8-sig")
    try:
        ast.parse(text, str(path))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", 0)
        source = (getattr(error, "text", "") or "").strip()
        hint = ""
        if _PYTHON_2.search(text):
            hint = "; the file is Python 2: run 2to3 -w on it"
        raise TopologyError(f"line {line} is not Python 3: {source[:60]!r}{hint}") from None
    requests.limit_time = partial(_limit_time, requests)
    # The file sees what it would see if it were run by itself.
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]
    name, *values = requested.split(",")
    net = _recorded(path, name, values, requests.notes)
    if net is None:
        raise TopologyError(f"{name} makes no Mininet network")
    signal.setitimer(signal.ITIMER_REAL, 0)
    return _noted_document(net, requests)


def _recorded(
    path: Path, name: str, values: Sequence[str], notes: list[str]
) -> recording.RecordedMininet | None:
    """Return the network that the file builds under a name, or None if it builds none.

    If the program fails after its network was built, the network counts, and a note says so unless
    the network was started.

    Args:
        path: The file.
        name: Name of the network in the file.
        values: Values that follow the name.
        notes: Notes for the user, to which this adds.
    """
    networks = recording.RecordedMininet.networks
    try:
        return _built(path, name, values, notes)
    except recording.EndOfBuilding:
        return recording.RecordedMininet.started or _last(networks)
    except (Exception, SystemExit) as error:
        if recording.RecordedMininet.started is not None:
            return recording.RecordedMininet.started
        for network in networks:
            if network.built:
                reason = _reason(error, path)
                notes.append(f"the program failed after its network was built ({reason})")
                return network
        raise


def _last(
    networks: Sequence[recording.RecordedMininet],
) -> recording.RecordedMininet | None:
    return networks[-1] if networks else None


def _noted_document(
    net: recording.RecordedMininet, requests: recording.RecordedRequests
) -> JsonObject:
    """Return the document of a network, and note the commands that are not run.

    Raises:
        TopologyError: A command creates cables, which the document would lack.
    """
    shortened = []
    for who, text in requests.commands:
        command = f"{who}: {text[:_COMMAND_CHARACTERS]}"
        shortened.append(command)
        if _CABLES.search(text):
            raise TopologyError(
                f"it creates cables by commands ({command}), which are not read; "
                "run it with testbed python"
            )
    document = document_of(net, requests)
    if shortened:
        listed = "; ".join(dict.fromkeys(shortened[:_MAX_COMMANDS]))
        note = f"commands are not run: {listed}"
        remaining = len(shortened) - _MAX_COMMANDS
        if remaining > 0:
            note += f" and {remaining} more"
        requests.notes.append(note)
    return document


def _built(
    path: Path, name: str, values: Sequence[str], notes: list[str]
) -> recording.RecordedMininet | None:
    """Run the file, and build the network of a name in it.

    Args:
        path: The file.
        name: Name of the network in the file, or ``__main__``.
        values: Values that follow the name.
        notes: Notes for the user, to which this adds.

    Raises:
        TopologyError: The file has no such network.
    """
    networks = recording.RecordedMininet.networks
    if name == "__main__":
        runpy.run_path(str(path), run_name="__main__")
        return _last(networks)
    globals_of_file = runpy.run_path(str(path), run_name=_MODULE)
    make = _maker(globals_of_file, name, notes)
    network = make
    if callable(make):
        positional = []
        named = {}
        for value in values:
            key, equals, text = value.partition("=")
            if equals:
                named[key] = _value(text)
            else:
                positional.append(_value(value))
        network = make(*positional, **named)
    if isinstance(network, Topo):
        network = recording.RecordedMininet(topo=network, controller=None)
    if isinstance(network, recording.RecordedMininet):
        return network
    return _last(networks)


def _maker(globals_of_file: dict[str, Any], name: str, notes: list[str]) -> Any:
    """Return what the file has under a name: a callable, a Topo or a network.

    Args:
        globals_of_file: The global names of the file.
        name: The name.
        notes: Notes for the user, to which this adds.

    Raises:
        TopologyError: The file has no such network.
    """
    topos: dict[Any, Any] = {}
    for key in ("topos", "TOPOS"):
        if isinstance(globals_of_file.get(key), dict):
            topos = globals_of_file[key]
            break
    make = topos.get(name, globals_of_file.get(name))
    if isinstance(make, tuple) and make and callable(make[0]):
        notes.append(
            f"topos[{name!r}] is a tuple, which mn itself refuses; its first part is called"
        )
        make = make[0]
    if not callable(make) and not isinstance(make, Topo | recording.RecordedMininet):
        candidates = [*topos]
        candidates += [key for key, value in globals_of_file.items() if _makes_networks(value)]
        raise TopologyError(f"it has no topology {name!r}; {nearest(name, candidates, 'it has ')}")
    return make


def _limit_time(requests: recording.RecordedRequests) -> None:
    """End this program with what is built if the file runs for long after its network started."""

    def finish(*_: object) -> None:
        net = recording.RecordedMininet.started
        assert net is not None
        answer: JsonObject
        try:
            answer = {"document": _noted_document(net, requests)}
            answer["notes"] = list(dict.fromkeys(requests.notes))
        except TopologyError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer, default=str), file=sys.__stdout__, flush=True)
        os._exit(0)

    signal.signal(signal.SIGALRM, finish)
    signal.setitimer(signal.ITIMER_REAL, _AFTER_START_S)


def _makes_networks(value: object) -> bool:
    """Return whether a global of the file may be a network.

    It may be if it is the file's own Topo class, or its own function without parameters.
    """
    if isinstance(value, type):
        return issubclass(value, Topo) and value.__module__ == _MODULE
    if not isinstance(value, FunctionType) or value.__module__ != _MODULE:
        return False
    return not value.__code__.co_argcount


def _value(text: str) -> Any:
    """Return a number or another literal of Python, and otherwise the text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def document_of(net: recording.RecordedMininet, requests: recording.RecordedRequests) -> JsonObject:
    """Return the node-link document of a recorded network.

    Hosts, switches and links are in the order in which the program created them.

    Args:
        net: The network.
        requests: Its requests, to whose notes this adds.
    """
    if not net.built and (net.topo or net.hosts):
        net.build()
    # Names of parameters that a document cannot hold, in their order.
    unsupported: dict[str, None] = {}
    notes = requests.notes
    nodes = [_host(net, node, notes, unsupported) for node in _hosts(net)]
    for switch in net.switches:
        entry: JsonObject = {"id": switch.name, "kind": "switch"}
        dpid = getattr(switch, "given_dpid", None)
        if dpid:
            entry["dpid"] = str(dpid)
        nodes.append(entry)
    links = []
    for link in net.links:
        source = link.intf1.node.name
        target = link.intf2.node.name
        if _is_down(net, link):
            notes.append(f"left out: the link {source}-{target}, which the program takes down")
            continue
        values: JsonObject = dict(link.stated)
        for number, intf in enumerate((link.intf1, link.intf2), start=1):
            values[f"params{number}"] = _interface(net, intf)
            values[f"port{number}"] = intf.node.ports.get(intf)
        links.append(link_entry(source, target, values, notes, unsupported))
    document = ported_document(nodes, links, unsupported, notes)
    if net.controllers:
        notes.append("controllers are left out: the testbed's own sets the switches up")
    return document


def _hosts(net: recording.RecordedMininet) -> list[Any]:
    """Return the hosts of a network, and other nodes that have links but are not switches."""
    hosts = list(net.hosts)
    for link in net.links:
        for intf in (link.intf1, link.intf2):
            if intf.node not in hosts and intf.node not in net.switches:
                hosts.append(intf.node)
    return hosts


def _host(
    net: recording.RecordedMininet, node: Any, notes: list[str], unsupported: dict[str, None]
) -> JsonObject:
    """Return the entry of a host.

    Args:
        net: The network.
        node: The host.
        notes: Notes for the user, to which this adds.
        unsupported: Names of parameters that a document cannot hold, to which this adds.
    """
    entry: JsonObject = {"id": node.name, "kind": "host"}
    if not node.inNamespace:
        notes.append(
            f"{node.name} would be next to the switches (inNamespace=False); "
            "it is an ordinary host here"
        )
    if net.requests.forwards(node.given):
        entry["forwarding"] = True
    first = node.intfs[min(node.intfs)] if node.intfs else None
    stated = {
        "ip": _stated_ip(net, node, first),
        "mac": getattr(first, "stated_mac", None) or _stated(net, node, "mac"),
        "default_route": vars(node).get("default_route"),
    }
    return entry | parameters({name: value for name, value in stated.items() if value}, unsupported)


def _stated(net: recording.RecordedMininet, node: Any, name: str) -> Any:
    """Return a parameter that the program gave to a host, or None."""
    return net.stated.get(node.given, {}).get(name)


def _stated_ip(net: recording.RecordedMininet, node: Any, first: Any) -> str | None:
    """Return the main address of a host, or None if it has the one that hosts usually get."""
    stated = _stated(net, node, "ip")
    if first is not None and first.ip and not _is_usual(net, first):
        return str(stated) if _same_ip(first, stated) else f"{first.ip}/{first.prefixLen}"
    return None if stated is None else str(stated)


def _same_ip(intf: Any, address: object) -> bool:
    return bool(str(address).partition("/")[0] == intf.ip)


def _is_usual(net: recording.RecordedMininet, intf: Any) -> bool:
    """Return whether Mininet chose the address of the interface, from its usual subnet."""
    chosen = _stated(net, intf.node, "ip") is None and not intf.params.get("ip")
    usual_subnet = net.ipBase == _USUAL_SUBNET
    return bool(chosen and usual_subnet and _same_ip(intf, intf.node.params.get("ip")))


def _interface(net: recording.RecordedMininet, intf: Any) -> JsonObject:
    """Return what one end of a link does to packets, and the addresses that the file gives it."""
    params = _parameters_at_start(net, intf)
    fields = {}
    for name in _INTERFACE_PARAMETERS:
        if params.get(name) is not None:
            fields[name] = params[name]
    if intf.ip and not _is_usual(net, intf):
        fields["ip"] = f"{intf.ip}/{intf.prefixLen}"
    if getattr(intf, "stated_mac", None):
        fields["mac"] = intf.stated_mac
    return fields


def _is_down(net: recording.RecordedMininet, link: Any) -> bool:
    """Return whether a program has taken the link down before its network started."""
    return any(_parameters_at_start(net, intf)["down"] for intf in (link.intf1, link.intf2))


def _parameters_at_start(net: recording.RecordedMininet, intf: Any) -> dict[str, Any]:
    """Return the parameters of a link's end when the network started, or now if it did not."""
    return net.ends_at_start.get(intf) or recording.parameters_of(intf)


def main(arguments: list[str]) -> int:
    """Print what was read, or why nothing was read; the output of the file itself is discarded.

    Args:
        arguments: FILE and NAME.
    """
    path = Path(arguments[0]).absolute()
    requests = recording.install()
    lg.setLogLevel("critical")
    answer: JsonObject
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            answer = {"document": read(path, arguments[1], requests)}
            answer["notes"] = list(dict.fromkeys(requests.notes))
        except TopologyError as error:
            answer = {"error": str(error)}
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001
            # The file may raise anything.
            answer = {"error": _reason(error, path)}
    print(json.dumps(answer, default=str), flush=True)
    return 0


def _reason(error: BaseException, path: Path) -> str:
    """Return one line about an error that the file raised: where in the file, and what to do."""
    where = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == str(path) and frame.lineno is not None:
            # The last frame in the file is closest to the error.
            where = f"line {frame.lineno}: "
    if isinstance(error, ModuleNotFoundError):
        return f"{where}the module {error.name} is missing; install it, or put it next to the file"
    if isinstance(error, SystemExit):
        return f"{where}the program ends by itself (exit {error.code}) before it builds a network"
    text = " ".join(str(error).split())[:200]
    return f"{where}{type(error).__name__}: {text}{_advice(error, text)}"


def _advice(error: BaseException, text: str) -> str:
    """Return what to do about an error that often occurs, or an empty string."""
    if "'float' object cannot be interpreted" in text:
        return "; in Python 3 / gives a fraction: write //"
    if isinstance(error, FileNotFoundError):
        return "; the file is read where only the files of its own folder are seen"
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
