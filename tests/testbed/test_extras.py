"""The command for an extra fits how the package is installed."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest

from testbed.extras import command_for, pip_command


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (
            {"url": "file:///home/ann/clone", "dir_info": {"editable": True}},
            "pip install -e '/home/ann/clone[live]'",
        ),
        (
            {"url": "file:///home/ann/clone", "dir_info": {}},
            "pip install '/home/ann/clone[live]'",
        ),
        (
            {"url": "file:///tmp/testbed.whl", "archive_info": {}},
            "pip install 'parallel-communications-testbed[live] @ file:///tmp/testbed.whl'",
        ),
        (
            {"url": "https://host/repo.git", "vcs_info": {"vcs": "git", "commit_id": "12ab"}},
            "pip install 'parallel-communications-testbed[live] @ git+https://host/repo.git@12ab'",
        ),
        (
            {"url": "file:///home/ann/my%20clone", "dir_info": {}},
            "pip install '/home/ann/my clone[live]'",
        ),
        (None, "pip install 'parallel-communications-testbed[live]'"),
    ],
)
def test_the_form_of_every_installation(origin: object, command: str) -> None:
    direct_url = None if origin is None else json.dumps(origin)
    assert command_for("live", direct_url) == f"{sys.executable} -m {command}"


def test_the_installation_here_has_one() -> None:
    command = pip_command("live")
    assert "[live]" in command
    python, *options = shlex.split(command)
    version = subprocess.run([python, *options[:2], "--version"], capture_output=True, text=True)
    assert version.stdout.startswith("pip ")
