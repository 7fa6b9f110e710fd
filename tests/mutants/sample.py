"""Which mutants are tried first: a seeded order over places in the code, and the places where a mutant changes
nothing."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Position = tuple[int, int]
"""Line, column."""


def sample_order(items: Iterable[Any], tree: Path, seed: int) -> Iterator[Any]:
    """All mutants (cosmic-ray's work items) in the order of the sample: one of every place, places shuffled, then a
    second of every place that has one, and so on. ``tree``: where the modules lie that the items name."""
    generator = random.Random(f"mutants/{seed}")
    by_place: dict[tuple[str, Position, Position], list[Any]] = {}
    idle: dict[Path, list[tuple[Position, Position]]] = {}
    for item in sorted(
        items, key=lambda item: (*place_of(item.mutations[0]), item.mutations[0].operator_name)
    ):
        mutation = item.mutations[0]
        path = Path(mutation.module_path)
        if path not in idle:
            idle[path] = idle_ranges((tree / path).read_text())
        if not any(start <= mutation.start_pos < end for start, end in idle[path]):
            by_place.setdefault(place_of(mutation), []).append(item)
    queues = list(by_place.values())
    for queue in queues:
        generator.shuffle(queue)
    generator.shuffle(queues)
    while queues:
        yield from (queue.pop() for queue in queues)
        queues = [queue for queue in queues if queue]


def place_of(mutation: Any) -> tuple[str, Position, Position]:
    """Where cosmic-ray's mutation is: module, start, end."""
    (line, column), (last_line, last_column) = mutation.start_pos, mutation.end_pos
    return str(mutation.module_path), (line, column), (last_line, last_column)


def idle_ranges(source: str) -> list[tuple[Position, Position]]:
    """(start, end) of what changes nothing that runs: annotations (they stay text), imports for the type checker, and
    what a dataclass forbids its users (frozen, kw_only)."""
    found: list[ast.expr | ast.stmt | None] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AnnAssign | ast.arg):
            found.append(node.annotation)
        elif isinstance(node, ast.FunctionDef):
            found.append(node.returns)
        elif isinstance(node, ast.ClassDef):
            found += [d for d in node.decorator_list if ast.unparse(d).startswith("dataclass")]
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            found.append(node)
    return [
        ((n.lineno, n.col_offset), (n.end_lineno or 0, n.end_col_offset or 0))
        for n in found
        if n is not None
    ]
