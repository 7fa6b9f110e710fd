"""What a daemon says when it ends is reported with what to do about it."""

from __future__ import annotations

import errno
import os

import pytest

from testbed.emulation.network.open_vswitch.switch_daemon import with_hint


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_a_tmp_that_cannot_be_written_has_a_mend(number: int) -> None:
    words = f"ovsdb-server: failed to create temporary file ({os.strerror(number)})"
    assert with_hint(words) == (
        f"{words}; it needs a /tmp that can be written: mount a tmpfs there (containers: --tmpfs /tmp)"
    )
    assert with_hint("bad database") == "bad database"
