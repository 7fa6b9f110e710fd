"""The legend of a route's drawing: the layers, loads, marks and ends that are in it, each as it is drawn."""

from collections.abc import Container, Sequence

from testbed.model.run_records import LinkLoad, SessionRun
from testbed.report.column_units import percent
from testbed.report.drawing.colours import LAYER_STEPS, layer_class
from testbed.report.drawing.network_svg import line_width
from testbed.report.markup import Markup, tag


def route_legend(part: SessionRun, drawn: Container[str]) -> Markup:
    """One entry for everything that is drawn, and nothing else. ``drawn``: the nodes."""
    links = part.session.links
    layers = max((link.layer for link in links), default=0)
    largest = max((float(link.load) for link in links), default=1.0)
    busy = {frozenset((link.source, link.target)) for link in links}
    entries = [(_sample(layer_class(layer, layers), 5.0), words) for layer, words in _layer_samples(layers, links)]
    for share in _sample_loads(links):
        entries.append((_sample("l-none", line_width(share, largest)), f"load {percent(share, 1)}"))
    shown = [li for li in part.session.network.get("links", ()) if li["source"] in drawn and li["target"] in drawn]
    if any(frozenset((li["source"], li["target"])) not in busy for li in shown):
        entries.append((_sample("idle", 1.0), "no load"))
    if any(f.skipped is None for f in part.faults):
        badges = tag("g", tag("circle", cx=9, cy=9, r=7.5), tag("text", "1", x=9, y=9, font_size=10), class_="badge")
        entries.append((tag("svg", badges, width=18, height=18, aria_hidden="true"), "failed in fault 1"))
    for role, mark in (("source", "M6.5 5l6 4l-6 4z"), ("sink", "M6 6h6v6h-6z")):
        shapes = [tag("rect", x=1, y=1, width=16, height=16, rx=2), tag("path", class_="mark", d=mark)]
        picture = tag("svg", tag("g", shapes, class_=f"node {role}"), width=18, height=18, aria_hidden="true")
        entries.append((picture, f"{role} {getattr(part.session, role)}"))
    return tag("ul", [tag("li", picture, tag("span", words)) for picture, words in entries], class_="legend")


def _sample_loads(links: Sequence[LinkLoad]) -> list[float]:
    """Loads that the legend shows the width of: the largest, the middle and the least that links have."""
    loads = sorted({float(link.load) for link in links}, reverse=True)
    return list(dict.fromkeys((loads[0], loads[len(loads) // 2], loads[-1]))) if loads else []


def _layer_samples(layers: int, links: Sequence[LinkLoad]) -> list[tuple[int, str]]:
    """Layers that the legend names: all where each has a colour of its own, else the first, a middle and the last."""
    if layers == 0:
        return []
    chosen = range(1, layers + 1) if layers <= LAYER_STEPS else (1, (layers + 1) // 2, layers)
    samples = [(layer, f"layer {layer}") for layer in chosen]
    return samples + ([(0, "in no layer")] if any(link.layer == 0 for link in links) else [])


def _sample(name: str, thick: float) -> Markup:
    line = tag("line", class_="load" if name != "idle" else "idle", x1=0, y1=9, x2=26, y2=9, stroke_width=thick)
    return tag("svg", tag("g", line, class_=f"link {name}"), width=26, height=18, aria_hidden="true")
