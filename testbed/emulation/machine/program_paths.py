"""Where the system's programs lie, for users whose PATH leaves out the folders of administrators."""

from __future__ import annotations

import shutil

SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"


def find_program(name: str) -> str | None:
    """Full path of a program, system directories included even where an ordinary user's PATH leaves them out."""
    return shutil.which(name) or shutil.which(name, path=SYSTEM_PATH)
