"""Compiled code is loaded as code: it is kept where this user alone writes, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fec.jit import own_cache


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    own_cache.cache_clear()
    yield tmp_path / "cache"
    own_cache.cache_clear()


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o077])
def test_others_write_neither_into_it_nor_beside_it(base: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        place = Path(own_cache())
    finally:
        os.umask(before)
    assert place == base / "parallel-communications-testbed" / "numba"
    assert all(folder.stat().st_mode & 0o022 == 0 for folder in (place, place.parent))


def test_an_open_one_is_closed(base: Path) -> None:
    place = base / "parallel-communications-testbed" / "numba"
    place.mkdir(parents=True)
    place.chmod(0o777)
    assert own_cache() == str(place) and place.stat().st_mode & 0o777 == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what another user made")
@pytest.mark.parametrize(
    "part", ["parallel-communications-testbed", "parallel-communications-testbed/numba"]
)
def test_another_user_s_is_not_read(base: Path, part: str) -> None:
    (base / part).mkdir(parents=True)
    os.chown(base / part, 54321, 54321)
    assert own_cache() == ""


def test_none_where_there_can_be_none(base: Path) -> None:
    base.write_text("a file")
    assert own_cache() == ""
