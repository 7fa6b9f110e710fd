"""Networks to files of JSON node-link, written whole or not at all, and networks by topohub name."""

import difflib
import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from topologies.errors import TopologyError, located
from topologies.files.node_link import parse_document, parse_json, write_document
from topologies.grouping import lists_by_key
from topologies.network import Network
from topologies.text.json_types import JsonObject
from topologies.text.text_file import read_text, reason, replace_file


def write_network_file(network: Network, path: str | Path) -> None:
    """Write the network into a file .json; reading it gives an equal network.

    Raises TopologyError for another ending, an attribute that JSON cannot hold, or a place that cannot be written.
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
    """Write a file so that its name shows either the old content or all of the new; TopologyError where it cannot be.

    A symbolic link is followed; a place that is no ordinary file (a pipe, /dev/stdout) is written as it is.
    """
    try:
        target = Path(os.path.realpath(path))  # OSError where this process's own folder is gone
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
    """TopologyError for a link that another user put into a folder like /tmp (as protected_symlinks of proc_sys_fs(5),
    which not every machine sets)."""
    if path.is_symlink():
        link, folder = path.lstat(), path.parent.stat()
        anybody_s = folder.st_mode & (stat.S_ISVTX | stat.S_IWOTH) == stat.S_ISVTX | stat.S_IWOTH
        if anybody_s and link.st_uid not in (os.geteuid(), folder.st_uid):
            raise OSError(
                errno.EACCES, "another user's symbolic link in a folder that all may write"
            )


def open_to_write(path: Path) -> BinaryIO:
    """The emptied file; OSError where it cannot be written, at once for a pipe that nobody reads."""
    file = open(path, "wb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK, 0o666))  # noqa: SIM115
    os.set_blocking(file.fileno(), True)
    return file


def is_there(path: str) -> bool:
    """Whether the path names anything; False for one that no file system would take."""
    try:
        return bool(path) and Path(path).exists()
    except (OSError, ValueError):
        return False


def shortened(name: object) -> str:
    """A name as errors quote it, cut where it is absurdly long."""
    text = str(name)
    return text if len(text) <= 200 else text[:200] + "..."


FIBRE_S_PER_KM = 5e-6
"""Seconds of propagation over a kilometre of optical fibre, as ITU-T G.114 (2003), Annex A, plans with."""


def read_topohub(key: str, delay: str = "none") -> Network:
    """The network of a topohub key such as ``topozoo/Abilene``: nodes are switches, ids its node numbers.

    Node names and fibre lengths (``dist``, km) become attributes; with ``delay`` "geo" links take FIBRE_S_PER_KM of
    their length. The forecast loads are left out, and so are the demands (``read_topohub_demands``). Raises
    TopologyError, naming the nearest keys, where there is none, and for another ``delay``.
    """
    if delay not in ("none", "geo"):
        raise TopologyError(
            f"topohub:{shortened(key)}: delay={delay[:40]}: give geo (by the length of fibres) or none"
        )
    document = _topohub_document(key)
    name = f"topohub:{key}" + (",delay=geo" if delay == "geo" else "")
    document["graph"] = {"name": name, "family": "topohub", "routing": "shortest-path"}
    for link in document["edges"]:
        if delay == "geo":
            link["delay_s"] = round(link["dist"] * FIBRE_S_PER_KM, 9)
        for forecast in ("ecmp_fwd", "ecmp_bwd"):
            link.pop(forecast, None)
    with located(f"topohub:{key}"):
        return parse_document(document)


def read_topohub_demands(key: str) -> dict[tuple[str, str], float]:
    """(source, sink) -> demand of a topohub key, in the unit of its collection (SNDlib states none that fits all);
    empty where it has none. Raises TopologyError as ``read_topohub``."""
    demands = _topohub_document(key)["graph"].get("demands") or {}
    return {
        (str(a), str(b)): float(rate)
        for a, row in demands.items()
        for b, rate in row.items()
        if a != b and rate > 0
    }


def _topohub_document(key: str) -> JsonObject:
    import topohub

    folder = Path(topohub.__file__).parent / "data"
    path = folder / f"{key}.json"
    plain = bool(key) and ".." not in Path(key).parts and not Path(key).is_absolute()
    if not plain or not is_there(str(path)) or not path.is_file():
        near = " or ".join(near_topohub_keys(key))
        known = "its keys look like topozoo/Abilene, sndlib/polska, backbone/africa, gabriel/25/0"
        hint = f"did you mean {near}?" if near else known
        raise TopologyError(f"topohub:{shortened(key)}: topohub has no such network; {hint}")
    document = parse_json(read_text(path))
    assert isinstance(document, dict)
    return document


def topohub_keys() -> tuple[str, ...]:
    """Every key that ``read_topohub`` knows, in order."""
    import topohub

    folder = Path(topohub.__file__).parent / "data"
    return tuple(
        sorted(p.relative_to(folder).with_suffix("").as_posix() for p in folder.rglob("*.json"))
    )


def near_topohub_keys(word: str) -> list[str]:
    """The keys nearest to a key or to the last part of one, best first; none where topohub is not installed.

    >>> near_topohub_keys("abilene")[0]
    'topozoo/Abilene'
    """
    try:
        keys = topohub_keys()
    except ModuleNotFoundError:
        return []
    by_lower = {k.lower(): k for k in keys}
    tails = ((lower.rsplit("/", 1)[-1], original) for lower, original in by_lower.items())
    by_tail = lists_by_key(
        (name, original) for name, original in tails if not name.isdecimal()
    )  # numbers are no names
    tail = word.lower().rsplit("/", 1)[-1]
    same = sorted(by_tail.get(tail, []), reverse=True)
    near = [by_lower[k] for k in difflib.get_close_matches(word.lower(), by_lower, n=3)]
    near += [k for t in difflib.get_close_matches(tail, by_tail, n=2) for k in by_tail[t][:1]]
    return list(dict.fromkeys(same + near))
