"""Optical clouds: edge routers around a cloud of optical cross-connects that are joined by fibres of many wavelengths.

Source: Gabrielyan 2007, 3.2.2 (Figure 27); the default cloud is the NSFNET backbone, 14 sites and 21 fibres.
"""

from dataclasses import replace
from typing import Unpack

from topologies.builder_values import Draft, LinkValues, check_size, integer
from topologies.errors import TopologyError
from topologies.network import Link, Network

CONVERSIONS = ("wsxc", "wixc")
"""Wavelength-selective cross-connects keep a lightpath's colour; wavelength-interchanging ones may change it."""

NSFNET_SITES = (
    ("Seattle WA", -122.3, 47.6),
    ("Palo Alto CA", -122.1, 37.4),
    ("San Diego CA", -117.2, 32.7),
    ("Salt Lake City UT", -111.9, 40.8),
    ("Boulder CO", -105.3, 40.0),
    ("Houston TX", -95.4, 29.8),
    ("Lincoln NE", -96.7, 40.8),
    ("Champaign IL", -88.2, 40.1),
    ("Pittsburgh PA", -80.0, 40.4),
    ("Atlanta GA", -84.4, 33.7),
    ("Ann Arbor MI", -83.7, 42.3),
    ("Ithaca NY", -76.5, 42.4),
    ("Princeton NJ", -74.7, 40.3),
    ("College Park MD", -76.9, 39.0),
)
"""Site i + 1: its name, longitude and latitude in degrees."""

NSFNET_FIBRES = (
    *((1, 2), (1, 3), (1, 8), (2, 3), (2, 4), (3, 6), (4, 5), (4, 11), (5, 6), (5, 7), (6, 10)),
    *((6, 14), (7, 8), (8, 9), (9, 10), (9, 12), (9, 13), (11, 12), (11, 13), (12, 14), (13, 14)),
)


def optical_cloud(
    *,
    graph: Network | None = None,
    wavelengths: int = 8,
    conversion: str = "wsxc",
    access: int = 2,
    **links: Unpack[LinkValues],
) -> Network:
    """Per site i: a cross-connect x<i>, an edge router e<i> (both switches) and a host h<i> behind the router.

    The switches of ``graph`` and the cables between them are the sites and fibres (its hosts are left out; its
    capacities and delays are kept); without it, the sites are NSFNET's, 1 to 14. ``access`` parallel fibres, keys 0,
    1, ..., join a router to its cross-connect: two by default, a working and a protecting one, so that a stream
    between routers can outlive the loss of any one fibre. Each fibre has the attribute ``wavelengths``, each
    cross-connect ``conversion`` ("wsxc" or "wixc"). Raises TopologyError for a graph without switches or values out of
    bounds.

    >>> net = optical_cloud()
    >>> len([link for link in net.links if link.source[0] == "x" and link.target[0] == "x"]) // 2
    21
    """
    wavelengths = integer("optical-cloud: wavelengths", wavelengths, 1, 10_000)
    access = integer("optical-cloud: access", access, 1, 64)
    if conversion not in CONVERSIONS:
        raise TopologyError(
            f"optical-cloud: conversion {conversion!r} is neither {CONVERSIONS[0]!r} nor {CONVERSIONS[1]!r}"
        )
    cloud = nsfnet(**links) if graph is None else graph
    sites = cloud.switches
    if not sites:
        raise TopologyError(
            f"optical-cloud: the graph {cloud.name!r} has no switch; give one whose nodes are switches"
        )
    check_size(3 * len(sites), len(cloud.links) + 2 * (access + 1) * len(sites))
    draft = Draft(**links)
    for s in sites:
        draft.switch(
            "x" + s.id,
            s.position,
            **{**s.attributes, "role": "cross-connect", "conversion": conversion},
        )
    for s in sites:
        draft.switch("e" + s.id, **{**s.attributes, "role": "edge-router"})
    draft.links += _fibres(cloud, wavelengths)
    for site in sites:
        x, e, h = (letter + site.id for letter in "xeh")
        draft.host(h)
        for key in range(access):
            draft.cable(e, x, key, medium="fibre", wavelengths=wavelengths)
        draft.cable(h, e)
    name = "optical-cloud" if graph is None else f"optical-cloud:graph={graph.name}"
    return draft.network(name, conversion=conversion, wavelengths=wavelengths)


def nsfnet(**links: Unpack[LinkValues]) -> Network:
    """The NSFNET backbone as a graph of switches 1..14, positions in degrees.

    >>> len(nsfnet().nodes), len(nsfnet().links)
    (14, 42)
    """
    draft = Draft(**links)
    for i, (site, *place) in enumerate(NSFNET_SITES, start=1):
        draft.switch(str(i), (place[0], place[1]), site=site)
    for a, b in NSFNET_FIBRES:
        draft.cable(str(a), str(b))
    return Network(name="nsfnet", nodes=tuple(draft.nodes), links=tuple(draft.links))


def _fibres(cloud: Network, wavelengths: int) -> list[Link]:
    inside = {site.id for site in cloud.switches}
    return [
        replace(
            link,
            source="x" + link.source,
            target="x" + link.target,
            impairments="",
            attributes={**link.attributes, "medium": "fibre", "wavelengths": wavelengths},
        )
        for link in cloud.links
        if link.source in inside and link.target in inside
    ]
