"""Messages about networks that the simulator cannot take."""

from __future__ import annotations

import pytest

from testbed.errors import InputError
from testbed.interconnect.static_paths import build_paths
from topologies import load_network


@pytest.mark.parametrize("name", ["two-switch", "three-switch"])
def test_host_without_outgoing_link_is_named(name: str) -> None:
    with pytest.raises(InputError, match="has no link that leaves it; the simulator needs"):
        build_paths(load_network(name))
