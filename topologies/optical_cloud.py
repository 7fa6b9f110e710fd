"""Optical clouds: edge routers around optical cross-connects, which are connected by WDM fibres.

Source: Gabrielyan 2007, 3.2.2 (Figure 27). The default cloud is the NSFNET backbone, which has 14
sites and 21 fibres.
"""

from dataclasses import replace
from typing import Unpack

from topologies.builder_values import Draft, LinkValues, check_size, integer
from topologies.errors import TopologyError
from topologies.network import Link, Network

# A wavelength-selective cross-connect (wsxc) keeps the wavelength of a lightpath. A
# wavelength-interchanging one (wixc) may change it.
CONVERSIONS = ("wsxc", "wixc")

# The name, the longitude and the latitude (in degrees) of each site; site 1 comes first.
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

# The pairs of sites that a fibre connects.
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
    """Return a network of optical cross-connects, edge routers and hosts.

    Site i has a cross-connect x<i> and an edge router e<i>, which are both switches, and a host
    h<i> behind the router.

    Args:
        graph: The sites and fibres of the cloud: its switches, and the cables between them with
            their capacities and delays. Its hosts are left out. If it is None, the sites are
            those of NSFNET, 1 to 14.
        wavelengths: Wavelengths of each fibre; the fibres have this attribute.
        conversion: "wsxc" or "wixc"; the cross-connects have this attribute.
        access: Number of parallel fibres, with the keys 0, 1, ..., between a router and its
            cross-connect. The default is two, a working and a protecting one, so that a stream
            between routers survives the failure of any one fibre.
        **links: Capacity and delay of the other links.

    Raises:
        TopologyError: The graph has no switch, or a value is out of bounds.

    >>> net = optical_cloud()
    >>> len([link for link in net.links if link.source[0] == "x" and link.target[0] == "x"]) // 2
    21
    """
    wavelengths = integer("optical-cloud: wavelengths", wavelengths, 1, 10_000)
    access = integer("optical-cloud: access", access, 1, 64)
    if conversion not in CONVERSIONS:
        raise TopologyError(
            f"optical-cloud: conversion {conversion!r} is neither"
            f" {CONVERSIONS[0]!r} nor {CONVERSIONS[1]!r}"
        )
    cloud = nsfnet(**links) if graph is None else graph
    sites = cloud.switches
    if not sites:
        raise TopologyError(
            f"optical-cloud: the graph {cloud.name!r} has no switch;"
            " give one whose nodes are switches"
        )
    check_size(3 * len(sites), len(cloud.links) + 2 * (access + 1) * len(sites))
    draft = Draft(**links)
    for site in sites:
        attributes = {**site.attributes, "role": "cross-connect", "conversion": conversion}
        draft.switch("x" + site.id, site.position, **attributes)
    for site in sites:
        attributes = {**site.attributes, "role": "edge-router"}
        draft.switch("e" + site.id, **attributes)
    draft.links += _fibres(cloud, wavelengths)
    for site in sites:
        cross_connect = "x" + site.id
        router = "e" + site.id
        host = "h" + site.id
        draft.host(host)
        for key in range(access):
            draft.cable(router, cross_connect, key, medium="fibre", wavelengths=wavelengths)
        draft.cable(host, router)
    name = "optical-cloud"
    if graph is not None:
        name += f":graph={graph.name}"
    return draft.network(name, conversion=conversion, wavelengths=wavelengths)


def nsfnet(**links: Unpack[LinkValues]) -> Network:
    """Return the NSFNET backbone as a graph of switches 1 to 14, with positions in degrees.

    >>> len(nsfnet().nodes), len(nsfnet().links)
    (14, 42)
    """
    draft = Draft(**links)
    for number, (site, longitude, latitude) in enumerate(NSFNET_SITES, start=1):
        draft.switch(str(number), (longitude, latitude), site=site)
    for a, b in NSFNET_FIBRES:
        draft.cable(str(a), str(b))
    return Network(name="nsfnet", nodes=tuple(draft.nodes), links=tuple(draft.links))


def _fibres(cloud: Network, wavelengths: int) -> list[Link]:
    """Return the links between cross-connects: those between the switches of the cloud's graph."""
    sites = {site.id for site in cloud.switches}
    fibres = []
    for link in cloud.links:
        if link.source in sites and link.target in sites:
            fibre = replace(
                link,
                source="x" + link.source,
                target="x" + link.target,
                impairments="",
                attributes={**link.attributes, "medium": "fibre", "wavelengths": wavelengths},
            )
            fibres.append(fibre)
    return fibres
