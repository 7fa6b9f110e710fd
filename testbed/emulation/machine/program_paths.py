"""Where the system's programs lie, for users whose PATH leaves out the folders of administrators."""

import re
import shutil
import subprocess

SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"


def find_program(name: str) -> str | None:
    """Full path of a program, system directories included even where an ordinary user's PATH leaves them out."""
    return shutil.which(name) or shutil.which(name, path=SYSTEM_PATH)


def version_line(name: str) -> str:
    """The first line of what a program says of its version, without its own name; "" where it does not say."""
    try:
        words = [find_program(name) or name, "--version"]
        said = subprocess.run(words, capture_output=True, text=True, timeout=5, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return re.sub(r"^\S+ ", "", said.splitlines()[0]) if said else ""
