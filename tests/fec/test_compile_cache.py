"""Compiled code is loaded as code: it is kept where this user alone writes, or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from fec import cache_directory
from fec.cache_directory import own_cache
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


@pytest.mark.parametrize("part", ["", "parallel-communications-testbed/numba"])
def test_open_folder_is_neither_used_nor_changed(base: Path, part: str) -> None:
    """Another user may have put files into it already."""
    (base / "parallel-communications-testbed" / "numba").mkdir(parents=True)
    (base / part).chmod(0o777)
    assert own_cache() == ""
    assert (base / part).stat().st_mode & 0o777 == 0o777


def test_cache_may_lie_in_a_common_folder(base: Path) -> None:
    """Nobody can exchange our folder in a folder like /tmp."""
    base.mkdir()
    base.chmod(0o1777)
    assert own_cache() == str(base / "parallel-communications-testbed" / "numba")
    assert base.stat().st_mode & 0o7777 == 0o1777


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what another user made")
@pytest.mark.parametrize("level", [0, 1, 2])
def test_folder_above_may_not_be_another_users(
    base: Path, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HOME is theirs, as under sudo that keeps it."""
    base = base / "user" / ".cache"
    base.mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(base))
    os.chown([base, *base.parents][level], 54321, -1)
    assert own_cache() == ""
    assert list(base.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what another user made")
def test_another_users_link_is_not_followed(base: Path, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    base.symlink_to(tmp_path / "target")
    os.chown(base, 54321, -1, follow_symlinks=False)
    assert own_cache() == ""
    assert list((tmp_path / "target").iterdir()) == []


def test_link_in_the_cache_is_not_followed(base: Path, tmp_path: Path) -> None:
    """The link could be turned to another folder later."""
    target = tmp_path / "target"
    target.mkdir(mode=0o1777)
    base.mkdir()
    (base / "parallel-communications-testbed").symlink_to(target)
    assert own_cache() == ""
    assert list(target.iterdir()) == []


def test_users_own_link_to_a_cache_is_followed(base: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    base.symlink_to(tmp_path / "disk")
    assert own_cache() == str(tmp_path / "disk" / "parallel-communications-testbed" / "numba")


OVERFLOW = int(Path("/proc/sys/kernel/overflowuid").read_text())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("known", [True, False])
def test_cache_in_a_user_namespace_is_below_the_known_home(
    base: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """There, folders of root and of other users look alike."""
    home = SimpleNamespace(pw_dir=str(base.parent if known else "/somewhere"))
    monkeypatch.setattr(cache_directory, "_uid_map", lambda: f"{os.geteuid()} 1000 1")
    monkeypatch.setattr(cache_directory.pwd, "getpwuid", lambda _: home)
    os.chown(base.parent, OVERFLOW, -1)
    assert bool(own_cache()) is known


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
