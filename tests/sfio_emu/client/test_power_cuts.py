"""A real file system that loses its power under a listener: an ext4 on a loop device, whose backing file is copied in
the moment of the cut. What the kernel has not brought to the device is not in the copy; the copy is mounted (its
journal replayed) and looked at. dm-flakey would do the same, and is not in every kernel. SFIO_POWER_CUTS=100 cuts so
often (by default a few).
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.listeners import listening
from tests.helpers.synced_writes import read_back, written_and_synced

CUTS = int(os.environ.get("SFIO_POWER_CUTS", "4"))


@contextmanager
def mounted(image: Path, folder: Path) -> Iterator[Path]:
    """The file system in `image`; skips the test where this machine lets nobody mount one."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-o", "loop,commit=300", image, folder],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        pytest.skip(f"no file system can be mounted on a loop device here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An empty ext4 of 16 MB, in memory where that is possible."""
    if not shutil.which("mkfs.ext4"):
        pytest.skip("mkfs.ext4 is missing: install e2fsprogs")
    place = tmp_path / "disk"
    with place.open("wb") as file:
        file.truncate(16 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-b", "1024", place], check=True)
    return place


def test_synced_writes_are_on_an_ext4_that_lost_its_power(tmp_path: Path, image: Path) -> None:
    draw = random.Random(14)
    lost_without_sync = kept = 0
    for cut in range(CUTS):
        before, after = tmp_path / f"before{cut}", tmp_path / f"after{cut}"
        fresh = Path(shutil.copy(image, f"{before}.img"))
        with mounted(fresh, before), listening(before / "files") as addresses:
            model, sure = written_and_synced(addresses, draw)
            shutil.copy(
                fresh, f"{after}.img"
            )  # the power is cut here: nothing is written meanwhile
        with mounted(Path(f"{after}.img"), after):
            with listening(after / "files") as addresses:
                found = read_back(addresses)
            assert (found == model)[sure].all(), f"cut {cut} lost bytes that were synced"
            lost_without_sync += int((found != model)[~sure].sum())
            kept += int(sure.sum())
    assert kept, "something was synced"
    assert lost_without_sync, "a cut that loses nothing would show nothing"
