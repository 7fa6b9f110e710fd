"""``python -m tests.helpers.sandboxed_call FILE FUNCTION ARGUMENTS``: call a function of a module in a sandbox, with
arguments in JSON. Its result, as JSON, is the last line of stdout, after ``RESULT``; an InvalidRunError's text is in
stderr, with INVALID on the next line."""

import importlib.util
import json
import sys
import tempfile

from testbed.emulation.sandbox.sandbox_entry import enter
from testbed.errors import InvalidRunError


def main(path: str, name: str, arguments: str) -> int:
    """Exit code 1 where the run is invalid; whatever else the function raises is raised."""
    enter({"die_with_parent": True})
    tempfile.tempdir = None
    spec = importlib.util.spec_from_file_location("sandboxed_test", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    try:
        print("\nRESULT " + json.dumps(getattr(module, name)(*json.loads(arguments))))
    except InvalidRunError as error:
        print(error, "INVALID", sep="\n", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
