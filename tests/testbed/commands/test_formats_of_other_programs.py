"""Files of other programs need a plug-in package: where it is not installed, one line says which."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.model.file_formats import SCHEDULE_FORMATS, SCHEDULE_VERIFIERS, TRAFFIC_FORMATS


@pytest.mark.parametrize(
    ("words", "package"),
    [
        ("schedule crossbar:4 --output FOLDER/x.xml", "collectives"),
        ("simulate ring:4 --traffic FOLDER/x.et", "chakra"),
        ("simulate ring:4 --traffic FOLDER/x.et.json", "chakra"),
    ],
)
def test_a_package_that_is_missing_is_named_in_one_line(
    words: str,
    package: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(metadata, "entry_points", lambda **_: ())
    for formats in (SCHEDULE_FORMATS, SCHEDULE_VERIFIERS, TRAFFIC_FORMATS):
        formats.forget_plugins()
    try:
        assert main(words.replace("FOLDER", str(tmp_path)).split()) == 3
    finally:
        for formats in (SCHEDULE_FORMATS, SCHEDULE_VERIFIERS, TRAFFIC_FORMATS):
            formats.forget_plugins()
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1 and f"pip install ./plugins/{package}" in err
    assert not list(tmp_path.iterdir())
