"""From a name to a network: ``swiss-t1``, ``torus:8x8``, ``manet:nodes=115,seed=3``, ``topohub:topozoo/Abilene``, a
file.

A name is ``family``, or ``family:`` and words parted by commas: values in the family's order, or ``parameter=value``.
"""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from topologies.builder_values import PARSERS, LinkValues, ValueKind
from topologies.direct_networks import (
    bipartite,
    dragonfly,
    gpu_machines,
    hypercube,
    hyperx,
    kautz,
    mesh,
    ring,
    torus,
)
from topologies.errors import TopologyError, located
from topologies.fat_tree import clos, fat_tree
from topologies.files.formats import is_there, near_topohub_keys, read_topohub, shortened
from topologies.files.reading import ENDINGS, read_network_file
from topologies.manet import DEFAULT_DEGREE, Walk, manet
from topologies.network import DEFAULT_CAPACITY_BPS, Network
from topologies.optical_cloud import optical_cloud
from topologies.registry import Registry
from topologies.swiss_t1 import FULL_ALLOCATION, checked_allocation, swiss_t1
from topologies.text.json_types import Json
from topologies.worked_examples import (
    bottleneck_hunt,
    capillary_layers,
    crossbar,
    shared_fibre,
    three_switch,
    two_switch,
)


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of a family: ``default`` as it would be written, None where it has none."""

    name: str
    kind: ValueKind
    default: str | None
    description: str


@dataclass(frozen=True, kw_only=True)
class CatalogueEntry:
    """One family of networks: its name, how a full name looks, its parameters (the first ``positional`` ones may be
    written without their names) and what it is in one line. ``build`` takes the parameters by name, and those of
    COMMON."""

    name: str
    pattern: str
    description: str
    parameters: tuple[Parameter, ...] = ()
    positional: int = 0
    build: Callable[..., Network]


COMMON = (
    Parameter(
        name="capacity_bps",
        kind="number",
        default=f"{DEFAULT_CAPACITY_BPS:.0f}",
        description="bits a second of every link",
    ),
    Parameter(
        name="delay_s",
        kind="number",
        default="0",
        description="seconds of propagation over every link",
    ),
)
"""Parameters of every family that is built here (not of topohub)."""


def load_network(name_or_path: str | os.PathLike[str]) -> Network:
    """The network of a catalogue name or of a file in one of the formats of ``topologies.files.reading``.

    A catalogue name wins over a file of the same name: write ./torus for the file. Raises TopologyError, in one line
    with the nearest names, for what is neither, and for parameters or files that make no network.

    >>> load_network("ring:5").name
    'ring:5'
    """
    if not isinstance(name_or_path, (str, os.PathLike)):
        raise TopologyError(
            f"network: got a {type(name_or_path).__name__}; give a catalogue name or a file"
        )
    program, of_program, part = str(name_or_path).partition(".py:")
    if of_program and not is_there(str(name_or_path)):
        return read_network_file(program + ".py", part)
    if not isinstance(name_or_path, str):
        return read_network_file(Path(name_or_path))
    family, colon, words = name_or_path.partition(":")
    # ours alone: a file is not hidden by what other packages call their families
    entry = FAMILIES.find(family) if family in FAMILIES.builtin_names() else None
    if entry is None:
        if is_there(name_or_path) or "/" in family or name_or_path.lower().endswith(ENDINGS):
            return read_network_file(name_or_path)
        entry = FAMILIES.find(family)
    if entry is None:
        raise TopologyError(
            f"network {shortened(name_or_path)!r}: neither a catalogue name nor a file; {_nearest_network(family)}"
        )
    if family == "topohub":
        return _topohub(words)
    if colon and not words:
        raise TopologyError(
            f"network {shortened(name_or_path)!r}: nothing follows the colon; write {family} or {entry.pattern}"
        )
    with located(f"network {shortened(name_or_path)!r}"):
        return entry.build(**_parse_values(entry, words))


def catalogue() -> tuple[CatalogueEntry, ...]:
    """Every family, in the order of ``testbed topology list``."""
    found = (FAMILIES.find(name) for name in FAMILIES.names())
    return tuple(entry for entry in found if entry is not None)


def _parse_values(entry: CatalogueEntry, words: str) -> Json:
    known = {p.name: p for p in (*entry.parameters, *COMMON)}
    written: dict[str, str] = {}
    last: str | None = None
    for position, word in enumerate(words.split(",") if words else ()):
        name, equals, value = word.partition("=")
        if not equals:
            if last is not None and known[last].kind == "text":
                written[last] += (
                    "," + word
                )  # the graph of a cloud may be a name with commas, as fat-tree:4,3
                continue
            if position >= entry.positional:
                raise TopologyError(
                    f"{shortened(word)!r} is not of the form parameter=value; write {entry.pattern}"
                )
            name, value = entry.parameters[position].name, word
        if name not in known:
            raise TopologyError(
                f"{entry.name} has no parameter {shortened(name)!r};"
                f" {_nearest(name, known, 'it has ' + ', '.join(known))}"
            )
        if name in written:
            raise TopologyError(f"{name} is given twice; keep one")
        written[name] = value
        last = name if equals else last
    filled = {n: p.default for n, p in known.items() if p.default is not None} | written
    return {name: _PARSERS[known[name].kind](name, text) for name, text in filled.items()}


def _allocation(name: str, text: str) -> tuple[int, ...]:
    parts = text.split("-")
    if len(text) > 40 or not all(part.isascii() and part.isdigit() for part in parts):
        raise TopologyError(
            f"{name} {text[:40]!r}: give 8 counts from 0 to 4 joined by '-', as in 4-4-4-4-0-0-0-0"
        )
    return checked_allocation([int(part) for part in parts])


_PARSERS = {**PARSERS, "allocation": _allocation}


def _nearest(wrong: str, known: Mapping[str, object], otherwise: str) -> str:
    near = difflib.get_close_matches(wrong.lower(), list(known), n=3, cutoff=0.5)
    return "did you mean " + " or ".join(near) + "?" if near else otherwise


def _nearest_network(wrong: str) -> str:
    """The nearest names of ours, unless topohub has just that name, or we have none near."""
    keys = near_topohub_keys(wrong)[:3]
    if keys and keys[0].lower().rpartition("/")[2] == wrong.lower():
        return f"did you mean topohub:{keys[0]}?"
    theirs = " or ".join(f"topohub:{key}" for key in keys)
    hint = f"did you mean {theirs}?" if keys else "testbed topology list shows all names"
    return _nearest(wrong, dict.fromkeys(FAMILIES.names()), hint)


def _optical_cloud(
    *,
    graph: str = "nsfnet",
    wavelengths: int = 8,
    conversion: str = "wsxc",
    access: int = 2,
    **links: Unpack[LinkValues],
) -> Network:
    if graph.partition(":")[0] == "optical-cloud":
        raise TopologyError(f"graph={graph}: a cloud of clouds is not meant; name the graph itself")
    sites = None if graph == "nsfnet" else load_network(graph)
    return optical_cloud(
        graph=sites, wavelengths=wavelengths, conversion=conversion, access=access, **links
    )


def _topohub(words: str) -> Network:
    key, *others = words.split(",")
    for word in others:
        if not word.startswith("delay="):
            raise TopologyError(
                f"topohub:{shortened(words)}: {word[:40]!r} is no parameter; topohub has delay=geo"
            )
    return read_topohub(key, *(word.partition("=")[2] for word in others[-1:]))


def _manet(
    *,
    nodes: int = 115,
    degree: float = DEFAULT_DEGREE,
    range: float | None = None,
    step: float = 0.02,
    seed: int = 1,
    frame: int = 0,
    aspect: float = 1.0,
    **links: Unpack[LinkValues],
) -> Network:
    walk = Walk(nodes=nodes, degree=degree, range_units=range, step=step, seed=seed, aspect=aspect)
    return manet(walk, frame=frame, **links)


_KINDS: Mapping[str, ValueKind] = {
    "int": "whole",
    "str": "text",
    "Shape": "shape",
    "Allocation": "allocation",
}
"""The kind of a parameter by its builder's annotation; all others are numbers."""


def _family(
    pattern: str, build: Callable[..., Network], description: str, **parameters: str
) -> CatalogueEntry:
    """A family of ours: names, kinds and defaults of its ``parameters`` (which have descriptions here) are those of its
    builder."""
    name, _, words = pattern.partition(":")
    given = inspect.signature(build).parameters
    return CatalogueEntry(
        name=name,
        pattern=pattern,
        description=description,
        parameters=tuple(
            Parameter(
                name=n,
                kind=_KINDS.get(
                    getattr(given[n].annotation, "__name__", given[n].annotation), "number"
                ),
                default=_as_written(given[n].default),
                description=about,
            )
            for n, about in parameters.items()
        ),
        positional=sum("=" not in word for word in words.split(",") if word),
        build=build,
    )


def _as_written(default: object) -> str | None:
    if isinstance(default, tuple):
        return ("-" if default == FULL_ALLOCATION else "x").join(map(str, default))
    return None if default is None or default is inspect.Parameter.empty else str(default)


_ENTRIES = (
    _family(
        "swiss-t1:allocation=4-4-4-4-0-0-0-0",
        swiss_t1,
        "Swiss-T1: 8 switches s1..s8, processors t0..t31 and r0..r31, static routing table",
        allocation="nodes that take part, a count per switch",
    ),
    _family(
        "two-switch",
        two_switch,
        "The papers' worked example: t1..t5, r1..r5, s_a, s_b and 12 one-way links",
    ),
    _family(
        "three-switch",
        three_switch,
        "The thesis' traffic without a liquid schedule: t1 to r1, t2 to r2, t3 to r3 around s_a, s_b, s_c, one way",
    ),
    _family(
        "shared-fibre",
        shared_fibre,
        "Two lightpaths that meet, A to B and C to D, over the one fibre between x1 and x2",
    ),
    _family(
        "capillary-layers:graph=1",
        capillary_layers,
        "The thesis' example of capillary layers, s to t: the four graphs of nine links that have its numbers",
        graph="which of the four: 1, 2 (1 upside down), 3, 4 (3 upside down)",
    ),
    _family(
        "bottleneck-hunt",
        bottleneck_hunt,
        "Ours, with the numbers of the thesis' bottleneck hunt: four full links, then three, then the two bottlenecks",
    ),
    _family(
        "crossbar:n",
        crossbar,
        "One switch s1 between senders t0.. and receivers r0..",
        n="senders, and receivers",
    ),
    _family(
        "optical-cloud:graph=FILE_OR_NAME,wavelengths=8,conversion=wsxc",
        _optical_cloud,
        "Edge routers e<i> with hosts h<i> around optical cross-connects x<i>; by default NSFNET's 14 sites",
        graph="sites and fibres: nsfnet, a catalogue name or a file",
        wavelengths="wavelengths a fibre",
        conversion="wsxc keeps a lightpath's colour, wixc may change it",
        access="parallel fibres between a router and its cross-connect",
    ),
    _family(
        "manet:nodes=115,seed=3,frame=0",
        _manet,
        "Random walk on the unit square: switches n0.. with hosts h0.., links between those in range",
        nodes="mobile nodes",
        degree="mean number of neighbours, which sets the range",
        range="range in sides of the square, instead of degree",
        step="most that a coordinate moves a frame",
        seed="of the walk",
        frame="which frame of the walk",
        aspect="width over height, where the area is no square",
    ),
    _family(
        "torus:8x8",
        torus,
        "Torus of any dimensions: s<x>_<y> with a host h<x>_<y> each",
        shape="switches in each dimension",
    ),
    _family(
        "mesh:8x8",
        mesh,
        "Mesh of any dimensions: s<x>_<y> with a host h<x>_<y> each",
        shape="switches in each dimension",
    ),
    _family("ring:n", ring, "Ring of switches s0.. with a host h0.. each", n="switches"),
    _family(
        "fat-tree:k,n",
        fat_tree,
        "k-ary n-tree: k^n hosts h0.., switches s<level>_<index>",
        k="ports down",
        n="levels of switches",
    ),
    _family(
        "dragonfly:a,h,p",
        dragonfly,
        "Largest Dragonfly: a h + 1 groups of a switches s<group>_<place>, h cables to other groups and p hosts each",
        a="switches of a group",
        h="cables of a switch to other groups",
        p="hosts of a switch",
    ),
    _family(
        "hyperx:4x4,1",
        hyperx,
        "HyperX: grid of switches s<x>_<y> with a cable between any two that differ in one coordinate, p hosts each",
        shape="switches in each dimension",
        p="hosts of a switch",
    ),
    _family(
        "hypercube:d",
        hypercube,
        "Hypercube: the torus of two switches in each of d dimensions",
        d="dimensions",
    ),
    _family(
        "kautz:n,d",
        kautz,
        "Generalised Kautz graph: s<i> has one-way links to (-d i - a) mod n, a = 1 to d, and a host h<i>",
        n="switches",
        d="links out of a switch",
    ),
    _family(
        "bipartite:n,m",
        bipartite,
        "A cable between each of s0.. and each of the m switches after them, and a host h<i> each",
        n="switches on one side",
        m="switches on the other",
    ),
    _family(
        "gpu-machines:2,4",
        gpu_machines,
        "Machines: switches s0.. with hosts h0.., machine by machine; slower cables between any two machines",
        m="machines",
        g="GPUs of a machine",
        cables="parallel cables between two machines",
        between_bps="of these cables, by default a tenth of capacity_bps",
    ),
    _family(
        "clos:k",
        clos,
        "Three-level fat tree of k-port switches: k^3/4 hosts h0.., switches s<level>_<index>",
        k="ports of a switch, even",
    ),
    _family(
        "topohub:topozoo/Abilene",
        read_topohub,
        "Real and synthetic backbones of the topohub package (topozoo, sndlib, backbone, gabriel, caida)",
        key="topohub's key, as testbed topology list topohub lists them",
        delay="geo: 5 microseconds for each kilometre of a link",
    ),
)


FAMILIES: Registry[CatalogueEntry] = Registry(
    "testbed.topologies",
    "family of networks",
    lambda thing: (
        None if isinstance(thing, CatalogueEntry) else "it is no topologies.catalog.CatalogueEntry"
    ),
)
for _entry in _ENTRIES:
    FAMILIES.register(_entry.name, _entry)
