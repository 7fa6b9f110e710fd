"""The networks that a Mininet program builds, as node-link documents: a program of its own.

    python -m testbed.emulation.network.mininet_network.recorded_network FILE NAME

prints one JSON object: ``document`` and ``notes``, or ``error``. NAME is an entry of the file's ``topos``, a Topo
class, a function that makes a network, or ``__main__``, the file as a script; values follow it as for ``mn --topo``
(``NAME,4,bw=10``). The file is a program and is run: call this in a sandbox only.
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
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

from mininet.log import lg
from mininet.topo import Topo

from testbed.emulation.network.mininet_network import recording
from topologies import JsonObject, TopologyError, nearest
from topologies.mininet.topo import link_entry, parameters, ported_document

_MODULE = "topology_file"
_PYTHON_2 = re.compile(
    r"^\s*print\s+[^(=\s]|^\s*except [\w., ()]+, \w+:|\bxrange\(|^\s*raise \w+, ", re.MULTILINE
)
_CABLES = re.compile(
    r"\bip\s+link\s+add\b.*\btype\s+veth\b|\bovs-vsctl\b.*\badd-port\b|\bbrctl\s+addif\b"
)
_MAX_COMMANDS = 3
_USUAL_SUBNET = "10.0.0.0/8"
# Time that a program may take after it has started its network.
_AFTER_START_S = 3.0
_OF_INTERFACES = (
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
    """The document of what NAME builds; TopologyError says in one line why it is none."""
    text = path.read_text(encoding="utf-8-sig")
    try:
        ast.parse(text, str(path))
    except (SyntaxError, ValueError) as error:
        line, source = getattr(error, "lineno", 0), (getattr(error, "text", "") or "").strip()
        older = "; the file is Python 2: run 2to3 -w on it" if _PYTHON_2.search(text) else ""
        raise TopologyError(f"line {line} is no Python 3: {source[:60]!r}{older}") from None
    requests.limit_time = partial(_limit_time, requests)
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]
    name, *words = requested.split(",")
    net, nets = None, recording.RecordedMininet.networks
    try:
        net = _built(path, name, words, requests.notes)
    except recording.EndOfBuilding:
        net = recording.RecordedMininet.started or next(reversed(nets), None)
    except (Exception, SystemExit) as error:
        net = recording.RecordedMininet.started or next((one for one in nets if one.built), None)
        if net is None:
            raise
        if recording.RecordedMininet.started is None:
            requests.notes.append(
                f"the program broke off when its network was built ({_reason(error, path)})"
            )
    if net is None:
        raise TopologyError(f"{name} makes no Mininet network")
    signal.setitimer(signal.ITIMER_REAL, 0)
    return _noted_document(net, requests)


def _noted_document(
    net: recording.RecordedMininet, requests: recording.RecordedRequests
) -> JsonObject:
    """Return the document of a network, and note the commands that are not run."""
    commands = [f"{who}: {text[:70]}" for who, text in requests.commands]
    cables = [
        text
        for text, (_, whole) in zip(commands, requests.commands, strict=True)
        if _CABLES.search(whole)
    ]
    if cables:
        raise TopologyError(
            f"it lays cables by commands ({cables[0]}), which are not read; run it with testbed python"
        )
    document = document_of(net, requests)
    if commands:
        more = len(commands) - _MAX_COMMANDS
        listed = "; ".join(dict.fromkeys(commands[:_MAX_COMMANDS]))
        requests.notes.append(
            f"commands are not run: {listed}" + (f" and {more} more" if more > 0 else "")
        )
    return document


def _built(
    path: Path, name: str, words: list[str], notes: list[str]
) -> recording.RecordedMininet | None:
    if name == "__main__":
        runpy.run_path(str(path), run_name="__main__")
        return next(reversed(recording.RecordedMininet.networks), None)
    found = runpy.run_path(str(path), run_name=_MODULE)
    topos: dict[Any, Any] = next(
        (found[key] for key in ("topos", "TOPOS") if isinstance(found.get(key), dict)), {}
    )
    make = topos.get(name, found.get(name))
    if isinstance(make, tuple) and make and callable(make[0]):
        notes.append(
            f"topos[{name!r}] is a tuple, which mn itself refuses; its first part is called"
        )
        make = make[0]
    if not callable(make) and not isinstance(make, Topo | recording.RecordedMininet):
        own = [key for key, one in found.items() if _makes_networks(one)]
        raise TopologyError(
            f"it has no topology {name!r}; {nearest(name, [*topos, *own], 'it has ')}"
        )
    values = [_value(word) for word in words if "=" not in word]
    named = {
        word.partition("=")[0]: _value(word.partition("=")[2]) for word in words if "=" in word
    }
    made = make(*values, **named) if callable(make) else make
    if isinstance(made, Topo):
        made = recording.RecordedMininet(topo=made, controller=None)
    return (
        made
        if isinstance(made, recording.RecordedMininet)
        else next(reversed(recording.RecordedMininet.networks), None)
    )


def _limit_time(requests: recording.RecordedRequests) -> None:
    """End this program with what is built if the file runs on for long after its network started."""

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


def _makes_networks(one: object) -> bool:
    """Whether a name of the file may stand for a network: a Topo class of its own, or a function that needs nothing."""
    if isinstance(one, type):
        return issubclass(one, Topo) and one.__module__ == _MODULE
    return (
        isinstance(one, FunctionType) and one.__module__ == _MODULE and not one.__code__.co_argcount
    )


def _value(word: str) -> Any:
    """A number or another literal of Python, else the text."""
    try:
        return ast.literal_eval(word)
    except (ValueError, SyntaxError):
        return word


def document_of(net: recording.RecordedMininet, requests: recording.RecordedRequests) -> JsonObject:
    """The node-link document of a network that was recorded: hosts, switches, links in the order of their making."""
    if not net.built and (net.topo or net.hosts):
        net.build()
    given: dict[str, None] = {}
    notes = requests.notes
    joined = dict.fromkeys(intf.node for link in net.links for intf in (link.intf1, link.intf2))
    hosts = [*net.hosts, *(node for node in joined if node not in (*net.hosts, *net.switches))]
    nodes = [_host(net, node, notes, given) for node in hosts]
    for switch in net.switches:
        stated = getattr(switch, "given_dpid", None)
        dpid = {"dpid": str(stated)} if stated else {}
        nodes.append({"id": switch.name, "kind": "switch", **dpid})
    links = []
    for link in net.links:
        if _is_down(net, link):
            cable = f"{link.intf1.node.name}-{link.intf2.node.name}"
            notes.append(f"left out: the link {cable}, which the program takes down")
            continue
        entry: JsonObject = dict(link.stated)
        for number, intf in enumerate((link.intf1, link.intf2), start=1):
            entry |= {
                f"params{number}": _interface(net, intf),
                f"port{number}": intf.node.ports.get(intf),
            }
        links.append(link_entry(link.intf1.node.name, link.intf2.node.name, entry, notes, given))
    document = ported_document(nodes, links, given, notes)
    if net.controllers:
        notes.append("controllers are left out: the testbed's own sets the switches up")
    return document


def _host(
    net: recording.RecordedMininet, node: Any, notes: list[str], given: dict[str, None]
) -> JsonObject:
    entry: JsonObject = {"id": node.name, "kind": "host"}
    if not node.inNamespace:
        notes.append(
            f"{node.name} would lie next to the switches (inNamespace=False); it is a host as the others"
        )
    if net.requests.forwards(node.given):
        entry["forwarding"] = True
    first = node.intfs[min(node.intfs)] if node.intfs else None
    stated = {
        "ip": _stated_ip(net, node, first),
        "mac": getattr(first, "stated_mac", None) or _stated(net, node, "mac"),
        "default_route": vars(node).get("default_route"),
    }
    return entry | parameters({name: value for name, value in stated.items() if value}, given)


def _stated(net: recording.RecordedMininet, node: Any, name: str) -> Any:
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
    params = net.ends_at_start.get(intf) or recording.parameters_of(intf)
    fields = {name: params[name] for name in _OF_INTERFACES if params.get(name) is not None}
    if intf.ip and not _is_usual(net, intf):
        fields["ip"] = f"{intf.ip}/{intf.prefixLen}"
    if getattr(intf, "stated_mac", None):
        fields["mac"] = intf.stated_mac
    return fields


def _is_down(net: recording.RecordedMininet, link: Any) -> bool:
    """Return whether a program has taken the link down before its network started."""
    ends = (link.intf1, link.intf2)
    return any(
        (net.ends_at_start.get(intf) or recording.parameters_of(intf))["down"] for intf in ends
    )


def main(words: list[str]) -> int:
    """Print what was read, or why nothing was; what the file itself prints is left out."""
    path, requests = Path(words[0]).absolute(), recording.install()
    lg.setLogLevel("critical")
    said: JsonObject
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            said = {"document": read(path, words[1], requests)}
            said["notes"] = list(dict.fromkeys(requests.notes))
        except TopologyError as error:
            said = {"error": str(error)}
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever the file raises
            said = {"error": _reason(error, path)}
    print(json.dumps(said, default=str), flush=True)
    return 0


def _reason(error: BaseException, path: Path) -> str:
    """One line for what the file raised: where in it, and what to do."""
    at = next(
        (
            f.lineno
            for f in reversed(traceback.extract_tb(error.__traceback__))
            if f.filename == str(path)
        ),
        None,
    )
    where = "" if at is None else f"line {at}: "
    if isinstance(error, ModuleNotFoundError):
        return f"{where}the module {error.name} is missing; install it, or put it next to the file"
    if isinstance(error, SystemExit):
        return f"{where}the program ends by itself (exit {error.code}) before it builds a network"
    text = " ".join(str(error).split())[:200]
    return f"{where}{type(error).__name__}: {text}{_advice(error, text)}"


def _advice(error: BaseException, text: str) -> str:
    """Return what to do about an error of the file's that often occurs, or nothing."""
    if "'float' object cannot be interpreted" in text:
        return "; in Python 3 / gives a fraction: write //"
    if isinstance(error, FileNotFoundError):
        return "; the file is read where only the files of its own folder are seen"
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
