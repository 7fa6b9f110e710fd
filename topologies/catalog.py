"""The catalogue: loads a network by its name or from a file.

Names are ``swiss-t1``, ``torus:8x8``, ``manet:nodes=115,seed=3`` or ``topohub:topozoo/Abilene``. A
name is ``family``, or ``family:`` and a list with commas of values (in the order of the family's
parameters) and of ``parameter=value``.
"""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
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
from topologies.errors import TopologyError, prefix_errors
from topologies.fat_tree import clos, fat_tree
from topologies.files.formats import near_topohub_keys, path_exists, read_topohub, shortened
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
    """One parameter of a family of networks.

    Attributes:
        name: Its name.
        kind: The kind of its values.
        default: The default as it would be written in a name, or None if there is none.
        description: What it means, for the listing of the catalogue.
    """

    name: str
    kind: ValueKind
    default: str | None
    description: str


@dataclass(frozen=True, kw_only=True)
class CatalogueEntry:
    """One family of networks.

    Attributes:
        name: The name of the family.
        pattern: An example of a full name.
        description: What the family is, in one line.
        parameters: Its own parameters; those of COMMON come in addition.
        positional: How many of the parameters may be written without their names; the first ones.
        build: Returns a network. It takes all parameters by name, and those of COMMON.
    """

    name: str
    pattern: str
    description: str
    parameters: tuple[Parameter, ...] = ()
    positional: int = 0
    build: Callable[..., Network]


# Parameters of every family that is built here, which topohub's networks are not.
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


def load_network(name_or_path: str | os.PathLike[str]) -> Network:
    """Load a network by its name in the catalogue, or from a file.

    The formats of files are those of ``topologies.files.reading``. A name of the catalogue takes
    precedence over a file of the same name: write ``./torus`` for the file.

    Args:
        name_or_path: A name, a path, or ``FILE.py:NAME`` for a topology in a Mininet file.

    Raises:
        TopologyError: There is no such name and no such file, or a parameter or the file is
            invalid. The message has one line; it gives the nearest names.

    >>> load_network("ring:5").name
    'ring:5'
    """
    if not isinstance(name_or_path, (str, os.PathLike)):
        raise TopologyError(
            f"network: got a {type(name_or_path).__name__}; give a catalogue name or a file"
        )
    program, python_file, name_in_program = str(name_or_path).partition(".py:")
    if python_file and not path_exists(str(name_or_path)):
        return read_network_file(program + ".py", name_in_program)
    if not isinstance(name_or_path, str):
        return read_network_file(Path(name_or_path))
    family, colon, parameters = name_or_path.partition(":")
    # Only built-in families hide files of the same name; families of plug-ins do not.
    entry = FAMILIES.find(family) if family in FAMILIES.builtin_names() else None
    if entry is None:
        if path_exists(name_or_path) or "/" in family or name_or_path.lower().endswith(ENDINGS):
            return read_network_file(name_or_path)
        entry = FAMILIES.find(family)
    if entry is None:
        raise TopologyError(
            f"network {shortened(name_or_path)!r}: neither a catalogue name nor a file;"
            f" {_nearest_network(family)}"
        )
    if family == "topohub":
        return _topohub(parameters)
    if colon and not parameters:
        raise TopologyError(
            f"network {shortened(name_or_path)!r}: nothing follows the colon;"
            f" write {family} or {entry.pattern}"
        )
    with prefix_errors(f"network {shortened(name_or_path)!r}"):
        return entry.build(**_parse_values(entry, parameters))


def catalogue() -> tuple[CatalogueEntry, ...]:
    """Return all families, in the order of ``testbed topology list``."""
    entries = map(FAMILIES.find, FAMILIES.names())
    return tuple(entry for entry in entries if entry is not None)


def _parse_values(entry: CatalogueEntry, text: str) -> Json:
    """Parse the values in a name, and fill in the defaults.

    Args:
        entry: The family.
        text: The part of the name behind the colon.
    """
    parameters = {parameter.name: parameter for parameter in (*entry.parameters, *COMMON)}
    texts = {
        name: parameter.default
        for name, parameter in parameters.items()
        if parameter.default is not None
    }
    texts |= _split_values(entry, parameters, text)
    return {name: _PARSERS[parameters[name].kind](name, text) for name, text in texts.items()}


def _split_values(
    entry: CatalogueEntry, parameters: Mapping[str, Parameter], text: str
) -> dict[str, str]:
    """Split the values in a name, and return the text of each parameter that is there.

    Args:
        entry: The family.
        parameters: All its parameters by name.
        text: The part of the name behind the colon.
    """
    texts: dict[str, str] = {}
    last_named: str | None = None
    parts = text.split(",") if text else []
    for position, part in enumerate(parts):
        name, equals, value = part.partition("=")
        if not equals:
            if last_named is not None and parameters[last_named].kind == "text":
                # The graph of an optical cloud may be a name with commas, as fat-tree:4,3.
                texts[last_named] += "," + part
                continue
            if position >= entry.positional:
                raise TopologyError(
                    f"{shortened(part)!r} is not of the form parameter=value; write {entry.pattern}"
                )
            name = entry.parameters[position].name
            value = part
        if name not in parameters:
            listing = "it has " + ", ".join(parameters)
            raise TopologyError(
                f"{entry.name} has no parameter {shortened(name)!r};"
                f" {_nearest(name, parameters, listing)}"
            )
        if name in texts:
            raise TopologyError(f"{name} is given twice; keep one")
        texts[name] = value
        if equals:
            last_named = name
    return texts


def _allocation(name: str, text: str) -> tuple[int, ...]:
    parts = text.split("-")
    if len(text) > 40 or not all(part.isascii() and part.isdigit() for part in parts):
        raise TopologyError(
            f"{name} {text[:40]!r}: give 8 counts from 0 to 4 joined by '-', as in 4-4-4-4-0-0-0-0"
        )
    return checked_allocation(list(map(int, parts)))


_PARSERS = {**PARSERS, "allocation": _allocation}


def _nearest(wrong: str, names: Iterable[str], otherwise: str) -> str:
    """Return the question whether one of the similar names is meant, or ``otherwise``."""
    similar = difflib.get_close_matches(wrong.lower(), list(names), n=3, cutoff=0.5)
    if not similar:
        return otherwise
    return "did you mean " + " or ".join(similar) + "?"


def _nearest_network(wrong: str) -> str:
    """Return advice on which name to give instead of an unknown one.

    A network of topohub is proposed if its name is exactly this one, or if no family has a similar
    name.
    """
    keys = near_topohub_keys(wrong)[:3]
    if keys and keys[0].lower().rpartition("/")[2] == wrong.lower():
        return f"did you mean topohub:{keys[0]}?"
    if keys:
        hint = f"did you mean {' or '.join(f'topohub:{key}' for key in keys)}?"
    else:
        hint = "testbed topology list shows all names"
    return _nearest(wrong, FAMILIES.names(), hint)


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
    sites = load_network(graph) if graph != "nsfnet" else None
    return optical_cloud(
        graph=sites, wavelengths=wavelengths, conversion=conversion, access=access, **links
    )


def _topohub(parameters: str) -> Network:
    """Return a network of topohub.

    Args:
        parameters: The key of the network, and ``delay=`` after a comma if it is given.
    """
    key, *options = parameters.split(",")
    for option in options:
        if not option.startswith("delay="):
            raise TopologyError(
                f"topohub:{shortened(parameters)}: {option[:40]!r} is no parameter;"
                " topohub has delay=geo"
            )
    if not options:
        return read_topohub(key)
    return read_topohub(key, options[-1].removeprefix("delay="))


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


# The kind of a parameter by the annotation of its builder; all other annotations are numbers.
_KINDS: Mapping[str, ValueKind] = {
    "int": "whole",
    "str": "text",
    "Shape": "shape",
    "Allocation": "allocation",
}


def _family(
    pattern: str, build: Callable[..., Network], description: str, **parameters: str
) -> CatalogueEntry:
    """Return the entry of a built-in family.

    The kinds and the defaults of its parameters are read from the signature of the builder.

    Args:
        pattern: An example of a full name.
        build: The builder.
        description: What the family is, in one line.
        **parameters: The description of each parameter.
    """
    name, _, values = pattern.partition(":")
    signature = inspect.signature(build).parameters
    entry_parameters = []
    for parameter_name, parameter_description in parameters.items():
        annotation = signature[parameter_name].annotation
        # Annotations are strings in modules with ``from __future__ import annotations``.
        annotation_name = getattr(annotation, "__name__", annotation)
        parameter = Parameter(
            name=parameter_name,
            kind=_KINDS.get(annotation_name, "number"),
            default=_default_text(signature[parameter_name].default),
            description=parameter_description,
        )
        entry_parameters.append(parameter)
    return CatalogueEntry(
        name=name,
        pattern=pattern,
        description=description,
        parameters=tuple(entry_parameters),
        positional=len([value for value in values.split(",") if value and "=" not in value]),
        build=build,
    )


def _default_text(default: object) -> str | None:
    """Return a default as it would be written in a name, or None if there is none."""
    if default is None or default is inspect.Parameter.empty:
        return None
    if default == FULL_ALLOCATION:
        return "-".join(map(str, FULL_ALLOCATION))
    if isinstance(default, tuple):
        return "x".join(map(str, default))
    return str(default)


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
        "The thesis' traffic without a liquid schedule: t1 to r1, t2 to r2, t3 to r3 around s_a,"
        " s_b, s_c, one way",
    ),
    _family(
        "shared-fibre",
        shared_fibre,
        "Two lightpaths that meet, A to B and C to D, over the one fibre between x1 and x2",
    ),
    _family(
        "capillary-layers:graph=1",
        capillary_layers,
        "The thesis' example of capillary layers, s to t: the four graphs of nine links that have"
        " its numbers",
        graph="which of the four: 1, 2 (1 upside down), 3, 4 (3 upside down)",
    ),
    _family(
        "bottleneck-hunt",
        bottleneck_hunt,
        "Ours, with the numbers of the thesis' bottleneck hunt: four full links, then three, then"
        " the two bottlenecks",
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
        "Edge routers e<i> with hosts h<i> around optical cross-connects x<i>; by default"
        " NSFNET's 14 sites",
        graph="sites and fibres: nsfnet, a catalogue name or a file",
        wavelengths="wavelengths a fibre",
        conversion="wsxc keeps a lightpath's colour, wixc may change it",
        access="parallel fibres between a router and its cross-connect",
    ),
    _family(
        "manet:nodes=115,seed=3,frame=0",
        _manet,
        "Random walk on the unit square: switches n0.. with hosts h0.., links between those in"
        " range",
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
        "Largest Dragonfly: a h + 1 groups of a switches s<group>_<place>, h cables to other"
        " groups and p hosts each",
        a="switches of a group",
        h="cables of a switch to other groups",
        p="hosts of a switch",
    ),
    _family(
        "hyperx:4x4,1",
        hyperx,
        "HyperX: grid of switches s<x>_<y> with a cable between any two that differ in one"
        " coordinate, p hosts each",
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
        "Generalised Kautz graph: s<i> has one-way links to (-d i - a) mod n, a = 1 to d, and a"
        " host h<i>",
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
        "Machines: switches s0.. with hosts h0.., machine by machine; slower cables between any"
        " two machines",
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
        "Real and synthetic backbones of the topohub package (topozoo, sndlib, backbone, gabriel,"
        " caida)",
        key="topohub's key, as testbed topology list topohub lists them",
        delay="geo: 5 microseconds for each kilometre of a link",
    ),
)


def _check_entry(thing: object) -> str | None:
    if isinstance(thing, CatalogueEntry):
        return None
    return "it is no topologies.catalog.CatalogueEntry"


FAMILIES: Registry[CatalogueEntry] = Registry(
    "testbed.topologies", "family of networks", _check_entry
)
for _entry in _ENTRIES:
    FAMILIES.register(_entry.name, _entry)
