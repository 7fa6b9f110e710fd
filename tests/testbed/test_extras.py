"""The command for an extra fits how the package is installed."""

from __future__ import annotations

import json

import pytest

from testbed.extras import command_for, pip_command


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (
            {"url": "file:///home/ann/clone", "dir_info": {"editable": True}},
            "pip install -e '.[live]' in the project folder",
        ),
        (
            {"url": "file:///home/ann/clone", "dir_info": {}},
            "pip install '.[live]' in the project folder",
        ),
        (
            {"url": "file:///tmp/testbed.whl", "archive_info": {}},
            "pip install 'parallel-communications-testbed[live] @ file:///tmp/testbed.whl'",
        ),
        (
            {"url": "https://host/repo.git", "vcs_info": {"vcs": "git", "commit_id": "12ab"}},
            "pip install 'parallel-communications-testbed[live] @ git+https://host/repo.git@12ab'",
        ),
        (None, "pip install 'parallel-communications-testbed[live]'"),
    ],
)
def test_the_form_of_every_installation(origin: object, command: str) -> None:
    assert command_for("live", None if origin is None else json.dumps(origin)) == command


def test_the_installation_here_has_one() -> None:
    assert "[live]" in pip_command("live") and pip_command("live").startswith("pip install ")
