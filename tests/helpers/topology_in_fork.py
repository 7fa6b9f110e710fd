"""``testbed.api.emulated.topology_program`` for a fork that has imported all: what the file builds is recorded in a
sandbox, but in this process. It keeps its capabilities there; whether a file can harm is for its own test."""

from __future__ import annotations

import sys

from testbed.emulation.network.mininet_network import recorded_network
from testbed.emulation.sandbox.sandbox_entry import enter

if __name__ == "__main__":
    enter({"die_with_parent": True, "read_only": True})
    sys.exit(recorded_network.main(sys.argv[1:]))
