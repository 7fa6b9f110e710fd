"""``testbed schema [KIND]``: the JSON Schema of each kind of file that commands read."""

import argparse
import json
from functools import partial

from testbed.commands.answer import Answer
from testbed.model.schemas import KINDS, schema_of

DESCRIPTION = (
    "Print the JSON Schema of a kind of file, or list the kinds. Unknown keys are refused."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "kind",
        metavar="KIND",
        nargs="?",
        choices=KINDS,
        help=f"kind of file: {', '.join(KINDS)}",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object on stdout; without KIND, it has all schemas",
    )


def run(args: argparse.Namespace) -> Answer:
    """Return the schema of one kind of file, or all schemas."""
    if args.kind is not None:
        schema = schema_of(args.kind)
        return Answer(schema, partial(print, json.dumps(schema, indent=1)))
    schemas = {kind: schema_of(kind) for kind in KINDS}
    lines = []
    for kind, schema in schemas.items():
        lines.append(f"{kind:<10} {schema['title']}: {schema['description']}")
    return Answer({"schemas": schemas}, partial(print, *lines, sep="\n"))
