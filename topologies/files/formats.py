"""Writes network files atomically as JSON node-link, and reads the networks of topohub."""

import difflib
import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from topologies.errors import TopologyError, prefix_errors
from topologies.files.node_link import parse_document, parse_json, write_document
from topologies.network import Network
from topologies.text.json_types import JsonObject
from topologies.text.text_file import read_text, reason, replace_file


def write_network_file(network: Network, path: str | Path) -> None:
    """Write a network into a JSON file; reading the file returns an equal network.

    Args:
        network: The network.
        path: The file; its name must end in ``.json``.

    Raises:
        TopologyError: The name has another ending, JSON cannot hold an attribute, or the file
            cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() != ".json":
        raise TopologyError(f"{path}: the ending {path.suffix!r} names no format; use .json")
    try:
        content = write_document(network).encode()
    except UnicodeEncodeError as error:
        raise TopologyError(
            f"{path}: {error.object[error.start : error.end]!r} is not valid text; rename it"
        ) from error
    except TopologyError as error:
        raise TopologyError(f"{path}: {error}") from error
    write_atomically(path, content)


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write a file so that its name stands for either the old content or all of the new content.

    A symbolic link is followed. If the path is not a regular file, as a pipe or /dev/stdout, the
    content is written into it directly.

    Raises:
        TopologyError: The file cannot be written.
    """
    try:
        # OSError if the working directory of this process has been removed.
        target = Path(os.path.realpath(path))
        _refuse_planted_link(Path(path))
        if target.exists() and not target.is_file() and not target.is_dir():
            with open_to_write(target) as file:
                file.write(content)
            return
        folder = os.open(target.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            replace_file(folder, target.name, content)
        finally:
            os.close(folder)
    except (OSError, ValueError) as error:
        raise TopologyError(
            f"{shortened(path)}: cannot be written ({reason(error)}); choose another place"
        ) from error


def _refuse_planted_link(path: Path) -> None:
    """Refuse a symbolic link that another user has put into a folder such as /tmp.

    This is the rule of ``protected_symlinks`` (proc_sys_fs(5)), which not every machine enables.

    Raises:
        OSError: The path is such a link.
    """
    if not path.is_symlink():
        return
    link = path.lstat()
    folder = path.parent.stat()
    sticky_and_world_writable = stat.S_ISVTX | stat.S_IWOTH
    is_shared = folder.st_mode & sticky_and_world_writable == sticky_and_world_writable
    if is_shared and link.st_uid not in (os.geteuid(), folder.st_uid):
        raise OSError(errno.EACCES, "another user's symbolic link in a folder that all may write")


def open_to_write(path: Path) -> BinaryIO:
    """Open a file for writing, and truncate it.

    Raises:
        OSError: The file cannot be written, or is a pipe that no program reads. Without O_NONBLOCK,
            opening such a pipe would block.
    """
    file = open(path, "wb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK, 0o666))  # noqa: SIM115
    os.set_blocking(file.fileno(), True)
    return file


def path_exists(path: str) -> bool:
    """Return whether a path exists; False also for a text that cannot be a path."""
    try:
        return bool(path) and Path(path).exists()
    except (OSError, ValueError):
        return False


def shortened(name: object) -> str:
    """Return a name as it is quoted in messages: at most 200 characters of it."""
    text = str(name)
    return text if len(text) <= 200 else text[:200] + "..."


# The propagation delay of a kilometre of optical fibre in seconds (ITU-T G.114 (2003), Annex A).
FIBRE_S_PER_KM = 5e-6


def read_topohub(key: str, delay: str = "none") -> Network:
    """Return a network of topohub.

    Its nodes are switches, and their ids are the numbers of topohub. Names of nodes and lengths of
    fibres (``dist``, in km) become attributes. Forecast loads are left out, and so are demands (see
    ``read_topohub_demands``).

    Args:
        key: The key of the network, as ``topozoo/Abilene``.
        delay: "geo" if links have the delay of their length, FIBRE_S_PER_KM for each kilometre;
            "none" if they have no delay.

    Raises:
        TopologyError: topohub has no such key, and the message gives the nearest ones; or ``delay``
            is something else.
    """
    if delay not in ("none", "geo"):
        raise TopologyError(
            f"topohub:{shortened(key)}: delay={delay[:40]}: give geo (by the length of fibres) or"
            " none"
        )
    document = _topohub_document(key)
    name = f"topohub:{key}"
    if delay == "geo":
        name += ",delay=geo"
    document["graph"] = {"name": name, "family": "topohub", "routing": "shortest-path"}
    for link in document["edges"]:
        if delay == "geo":
            link["delay_s"] = round(link["dist"] * FIBRE_S_PER_KM, 9)
        for forecast in ("ecmp_fwd", "ecmp_bwd"):
            link.pop(forecast, None)
    with prefix_errors(f"topohub:{key}"):
        return parse_document(document)


def read_topohub_demands(key: str) -> dict[tuple[str, str], float]:
    """Return the demand of each source and sink in a network of topohub.

    The unit is that of the collection; SNDlib states none that holds for all its networks.

    Args:
        key: The key of the network, as for ``read_topohub``.

    Returns:
        An empty dictionary if the network has no demands.

    Raises:
        TopologyError: topohub has no such key.
    """
    rows = _topohub_document(key)["graph"].get("demands") or {}
    demands = {}
    for source, row in rows.items():
        for sink, rate in row.items():
            if source != sink and rate > 0:
                demands[str(source), str(sink)] = float(rate)
    return demands


def _topohub_folder() -> Path:
    # Imported here because topohub is optional.
    import topohub

    return Path(topohub.__file__).parent / "data"


def _topohub_document(key: str) -> JsonObject:
    path = _topohub_folder() / f"{key}.json"
    # A key must not lead out of the folder.
    is_inside = bool(key) and ".." not in Path(key).parts and not Path(key).is_absolute()
    if not is_inside or not path_exists(str(path)) or not path.is_file():
        similar = near_topohub_keys(key)
        if similar:
            hint = f"did you mean {' or '.join(similar)}?"
        else:
            hint = (
                "its keys look like topozoo/Abilene, sndlib/polska, backbone/africa, gabriel/25/0"
            )
        raise TopologyError(f"topohub:{shortened(key)}: topohub has no such network; {hint}")
    document = parse_json(read_text(path))
    assert isinstance(document, dict)
    return document


def topohub_keys() -> tuple[str, ...]:
    """Return all keys that ``read_topohub`` accepts, in ascending order."""
    folder = _topohub_folder()
    paths = [path.relative_to(folder).with_suffix("") for path in folder.rglob("*.json")]
    return tuple(sorted(path.as_posix() for path in paths))


def near_topohub_keys(text: str) -> list[str]:
    """Return the keys that are similar to a text, or whose last part is; the best one first.

    Returns:
        An empty list if topohub is not installed.

    >>> near_topohub_keys("abilene")[0]
    'topozoo/Abilene'
    """
    try:
        keys = topohub_keys()
    except ModuleNotFoundError:
        return []
    key_by_lower = {key.lower(): key for key in keys}
    keys_by_tail: dict[str, list[str]] = {}
    for lower, key in key_by_lower.items():
        tail = lower.rsplit("/", 1)[-1]
        # Keys such as gabriel/25/0 end in a number, which is no name.
        if not tail.isdecimal():
            keys_by_tail.setdefault(tail, []).append(key)
    tail = text.lower().rsplit("/", 1)[-1]
    same_tail = sorted(keys_by_tail.get(tail, []), reverse=True)
    similar_keys = difflib.get_close_matches(text.lower(), key_by_lower, n=3)
    similar_tails = difflib.get_close_matches(tail, keys_by_tail, n=2)
    keys_in_order = dict.fromkeys(same_tail)
    for similar_key in similar_keys:
        keys_in_order[key_by_lower[similar_key]] = None
    for similar_tail in similar_tails:
        keys_in_order[keys_by_tail[similar_tail][0]] = None
    return list(keys_in_order)
