"""``testbed.api.emulated.topology_program`` for a fork that has imported all.

The file is read in this process, in the same sandbox, but without the limits of memory, which the
imports of the tests exceed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from testbed.api.emulated.topology_program import confine
from testbed.emulation.network.mininet_network import recorded_network
from testbed.emulation.sandbox.bare_root import python_paths
from testbed.emulation.sandbox.sandbox_entry import enter

if __name__ == "__main__":
    paths = python_paths()
    enter({"die_with_parent": True})
    confine(str(Path(sys.argv[1]).parent), paths)
    sys.exit(recorded_network.main(sys.argv[1:]))
