"""Files of many hosts are held under numbers that leave those that select knows to others."""

from __future__ import annotations

import os
import resource
import select

from testbed.emulation.network.kernel.host_namespaces import (
    move_above_select_limit,
    raise_open_file_limit,
)


def test_a_held_file_leaves_its_number_to_others() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        raise_open_file_limit()
        read, write = os.pipe()
        moved = move_above_select_limit(write)
        again = os.open(os.devnull, os.O_RDONLY)
        try:
            assert moved >= 1024
            assert again == write  # the number is free again
            assert not os.get_inheritable(moved)
            os.write(moved, b"x")
            assert select.select([read], [], [], 1)[0] == [read]
        finally:
            for descriptor in (read, moved, again):
                os.close(descriptor)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_file_stays_where_no_higher_number_is_allowed() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptor = os.open(os.devnull, os.O_RDONLY)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
        assert move_above_select_limit(descriptor) == descriptor
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        os.close(descriptor)
