"""Compiled code is loaded as code: it is kept where this user alone writes, or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fec.jit import own_cache
from tests.helpers.paths import ROOT


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


_COMPILING = """
import numba
from {module} import {name}
"""


@pytest.mark.parametrize(
    ("module", "name"), [("fec.jit", "compiled"), ("sfio_emu.layout.kernels", "gather_list")]
)
def test_compilers_settings_are_not_read_from_the_folder(
    tmp_path: Path, module: str, name: str
) -> None:
    """numba loads compiled code from the directory that its settings name."""
    (tmp_path / ".numba_config.yaml").write_text(f"cache_dir: {tmp_path}/evil\ndisable_jit: 1\n")
    calls = {"compiled": "compiled(lambda number: number + 1)(1)"}
    program = _COMPILING.format(module=module, name=name) + calls.get(name, "")
    print_again = "\nprint(numba.config.CACHE_DIR.startswith({!r}), numba.config.DISABLE_JIT)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program + print_again.format(str(tmp_path))],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "False 0"
    assert not (tmp_path / "evil").exists()
