"""``testbed schema [KIND]``: the JSON Schema of each kind of file that commands read."""

import argparse
import json

from testbed.commands.parsing import Subparsers
from testbed.model.schemas import KINDS, schema_of


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "schema",
        description="Print the JSON Schema of a kind of file, or list the kinds. Unknown keys are refused.",
    )
    parser.add_argument("kind", metavar="KIND", nargs="?", choices=KINDS, help=", ".join(KINDS))
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object on stdout: without KIND, all of them"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit code 0."""
    if args.kind is not None:
        print(json.dumps(schema_of(args.kind), indent=None if args.json else 1))
    elif args.json:
        print(json.dumps({"schemas": {kind: schema_of(kind) for kind in KINDS}}))
    else:
        for kind in KINDS:
            schema = schema_of(kind)
            print(f"{kind:<10} {schema['title']}: {schema['description']}")
    return 0
