"""``--plot``: the first figure of what a command computes, in every format."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.cli import main

ANSWERS = {
    "route": "route swiss-t1 --from s1 --to s6",
    "ror-methods": "ror swiss-t1 --from s1 --to s6 --routing single --routing capillary",
    "wavelengths": "wavelengths optical-cloud --pattern x1:x14,x2:x5",
}
BEGINNINGS = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_drawn(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for ending, begins in BEGINNINGS.items():
        path = tmp_path / f"a.{ending}"
        assert main([*ANSWERS[name].split(), "--plot", str(path)]) == 0
        assert f"drawn in {path}" in capsys.readouterr().out and path.read_bytes().startswith(
            begins
        )
        assert path.stat().st_size > 3000
    assert main([*ANSWERS[name].split(), "--plot", str(tmp_path / "a.txt")]) == 2
