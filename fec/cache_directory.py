"""The user's directory of compiled code, which no other user may write into."""

import contextlib
import functools
import os
import pwd
import stat
from collections.abc import Collection
from pathlib import Path

# The directory, relative to the user's cache directory.
_CACHE = ("parallel-communications-testbed", "numba")


@functools.cache
def own_cache() -> str:
    """Return the user's cache directory, and create it if it is missing.

    Each folder on its path must belong to the user or to root, and no other user may write into it.
    Otherwise another user could replace files that are loaded as code. Existing folders are not
    changed, and symbolic links below the user's own cache directory are not followed.

    Returns:
        The path, or "" if another user could change it, or it cannot be created.
    """
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute()
        owners = _trusted_owners(base)
        for folder in (base, *base.parents):
            # A symbolic link is as safe as the folder that contains it.
            if os.path.lexists(folder) and folder.lstat().st_uid not in owners:
                return ""
        directory = base.resolve().joinpath(*_CACHE)
        for folder in reversed((directory, *directory.parents)):
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o700)
            if not _only_for(folder, owners, sticky_suffices=folder.name not in _CACHE):
                return ""
    except (OSError, RuntimeError):
        return ""
    return str(directory)


def _only_for(folder: Path, owners: Collection[int], *, sticky_suffices: bool) -> bool:
    """Return whether only the owners can replace the contents of a folder.

    Args:
        folder: The folder, which may not be a symbolic link.
        owners: User ids.
        sticky_suffices: Accept a folder with the sticky bit, such as /tmp, in which users cannot
            replace the files of other users.
    """
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in owners:
        return False
    if sticky_suffices and status.st_mode & stat.S_ISVTX:
        return True
    writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    # A group with the user's own number has no other members (user private groups).
    private = status.st_gid == os.getegid() == os.geteuid()
    return not writable or (private and writable == stat.S_IWGRP)


def _uid_map() -> str:
    return Path("/proc/self/uid_map").read_text()


def _trusted_owners(base: Path) -> set[int]:
    """Return the ids of the users who may own the folders of a path.

    These are root and this user. In a user namespace, such as that of a sandbox, all other users,
    including root, appear with the same id (the overflow id). This id is trusted too if the path is
    below the home directory of the user in the system's user database.

    Args:
        base: The user's cache directory.
    """
    owners = {0, os.geteuid()}
    inside, outside, count = map(int, _uid_map().split()[:3])
    if inside == os.geteuid() and count == 1:
        with contextlib.suppress(KeyError):
            home = Path(pwd.getpwuid(outside).pw_dir)
            if base.is_relative_to(home):
                owners.add(int(Path("/proc/sys/kernel/overflowuid").read_text()))
    return owners
