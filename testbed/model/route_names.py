"""Names of the built-in routing methods for one flow, and descriptions of their routes."""

#: Name -> description, in the order in which they are listed. A name with a colon takes a
#: parameter, which replaces ``{}`` in the description.
ROUTE_NAMES = {
    "single": "a single path",
    "ecmp": "equal-cost shortest paths",
    "disjoint-2": "two disjoint paths",
    "disjoint-all": "all disjoint paths",
    "max-flow": "a maximum flow",
    "min-cost": "the maximum flow over the fewest links",
    "capillary": "the capillary route",
    "thesis-loop": "the capillary route by the loop of the thesis",
    "disjoint:k": "{} disjoint paths",
    "capillary:K": "the first {} layers of the capillary route, the rest over the fewest links",
    "least-fec:T": "the route of least redundancy at the tolerance {}",
    "smore:K": "the {} heaviest paths of routing trees",
}


def describe_route(method: str) -> str:
    """Return a description of a method's route that fits into a sentence.

    >>> describe_route("single"), describe_route("disjoint:3"), describe_route("theirs")
    ('a single path', '3 disjoint paths', "the route of 'theirs'")
    """
    if method in ROUTE_NAMES and ":" not in method:
        return ROUTE_NAMES[method]
    head, colon, parameter = method.partition(":")
    for name, description in ROUTE_NAMES.items():
        if colon and name.startswith(f"{head}:"):
            return description.format(parameter)
    return f"the route of {method!r}"


def list_routes() -> str:
    """Return the text of a help page that lists all names with their descriptions."""
    entries = []
    for name in ROUTE_NAMES:
        parameter = name.partition(":")[2]
        entries.append(f"{name} ({ROUTE_NAMES[name].format(parameter)})")
    return ", ".join(entries)
