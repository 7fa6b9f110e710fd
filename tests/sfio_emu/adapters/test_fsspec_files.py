"""The file system sfio:// of fsspec: what pandas, h5py and plain programs do with it, on four listeners."""

from __future__ import annotations

import errno
import gc
import pickle
import tomllib
import zipfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfio_emu import ListenerLost, Session, mstat
from sfio_emu.adapters.fsspec_files import SfioFileSystem
from sfio_emu.adapters.fsspec_paths import escape, unescape
from tests.helpers.listeners import listener, listening, session_of
from tests.sfio_emu.views.test_views_on_striped_files import listeners

HOSTS = ("p1", "p2", "p3", "p4")


@pytest.fixture
def places(tmp_path: Path) -> Iterator[str]:
    """Four listeners, as SFIO_LISTENERS names them."""
    fsspec.register_implementation("sfio", SfioFileSystem, clobber=True)
    with listeners(tmp_path, list(HOSTS)) as found:
        yield ",".join(f"{host}={address}:{port}" for host, (address, port) in found.items())


@pytest.fixture
def files(places: str) -> SfioFileSystem:
    return SfioFileSystem(listeners=places, stripe_unit=1000, skip_instance_cache=True)


def shares(tmp_path: Path, path: str) -> list[int]:
    return [(tmp_path / host / path).stat().st_size for host in HOSTS]


def test_pandas_writes_and_reads_parquet_over_four_listeners(places: str, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    draw = np.random.default_rng(1)
    table = pandas.DataFrame(
        {"number": np.arange(20_000), "value": draw.random(20_000), "name": ["a", "b"] * 10_000}
    )
    options = {"listeners": places, "stripe_unit": 1000}
    table.to_parquet("sfio://runs/table.parquet", storage_options=options)
    sizes = shares(tmp_path, "runs/table.parquet")
    assert min(sizes) > 30_000 and max(sizes) - min(sizes) <= 1000
    back = pandas.read_parquet("sfio://runs/table.parquet", storage_options=options)
    pandas.testing.assert_frame_equal(back, table)
    columns = pandas.read_parquet(
        "sfio://runs/table.parquet", columns=["value"], storage_options=options
    )
    pandas.testing.assert_frame_equal(columns, table[["value"]])
    table[:50].to_csv("sfio://runs/table.csv", index=False, storage_options=options)
    assert len(pandas.read_csv("sfio://runs/table.csv", storage_options=options)) == 50


def test_h5py_writes_and_reads_a_dataset_striped_over_four_listeners(
    files: SfioFileSystem, tmp_path: Path
) -> None:
    h5py = pytest.importorskip("h5py")
    values = np.random.default_rng(2).random((300, 200))
    with files.open("runs/data.h5", "w+b") as target, h5py.File(target, "w") as h5:
        h5.create_dataset("group/values", data=values, chunks=(50, 50), compression="gzip")
    assert min(shares(tmp_path, "runs/data.h5")) > 100_000
    with files.open("runs/data.h5", "rb") as source, h5py.File(source, "r") as h5:
        assert np.array_equal(h5["group/values"][...], values)
    with files.open("runs/data.h5", "r+b") as both, h5py.File(both, "r+") as h5:
        h5["group/values"][7, 7] = -1.0
    with files.open("runs/data.h5", "rb") as source, h5py.File(source, "r") as h5:
        assert h5["group/values"][7, 7] == -1.0 and h5["group/values"][8, 8] == values[8, 8]


def test_files_are_written_listed_moved_copied_and_deleted(
    files: SfioFileSystem, tmp_path: Path
) -> None:
    content = bytes(range(256)) * 41
    with files.open("sfio://a/b/data", "wb") as file:
        file.write(content)
    files.pipe_file("a/other", b"other")
    assert files.info("a/b/data") | {"mtime": 0} == {
        "name": "a/b/data", "size": len(content), "type": "file", "mtime": 0, "stripe_unit": 1000,
    }  # fmt: skip
    assert files.ls("", detail=False) == ["a"] and files.ls("a", detail=False) == ["a/b", "a/other"]
    assert files.ls("a/other")[0]["size"] == 5 and files.find("a") == ["a/b/data", "a/other"]
    assert files.glob("a/*/da*") == ["a/b/data"] and files.isdir("a/b") and files.isfile("a/b/data")
    assert files.cat_file("a/b/data", 1000, 1010) == content[1000:1010]
    assert (files.modified("a/other") - files.modified("a/b/data")).total_seconds() >= 0
    files.copy("a/b/data", "a/copy")
    files.mv("a/b/data", "moved")
    files.mv("a", "away", recursive=True)
    assert files.cat_file("moved") == content == files.cat_file("away/copy")
    assert files.find("") == ["away/copy", "away/other", "moved"]
    with files.open("moved", "ab") as file:
        file.write(b"more")
    with files.open("moved", "rt", encoding="latin-1") as text:
        assert text.read()[-4:] == "more"
    files.rm("away", recursive=True)
    assert files.find("") == ["moved"] and not files.exists("away/copy")
    assert all((tmp_path / host / "moved").exists() for host in HOSTS)


def test_missing_and_existing_paths_raise_operating_system_errors(
    files: SfioFileSystem,
) -> None:
    assert not files.exists("none") and not files.exists("none/deep")
    for act in (
        lambda: files.open("none"),
        lambda: files.info("none"),
        lambda: files.ls("none"),
        lambda: files.rm("none"),
    ):
        with pytest.raises(FileNotFoundError):
            act()
    files.touch("there")
    with pytest.raises(FileExistsError) as caught:
        files.open("there", "xb")
    assert caught.value.errno == errno.EEXIST and caught.value.filename == "there"
    with files.transaction, pytest.raises(NotImplementedError, match="do not support transactions"):
        files.open("new", "wb")


def test_a_file_that_is_touched_is_emptied_or_stays(files: SfioFileSystem) -> None:
    files.touch("new", truncate=False)
    files.pipe_file("data", b"0123456789")
    files.touch("data", truncate=False)
    assert files.size("new") == 0 and files.cat_file("data") == b"0123456789"
    files.touch("data")
    assert files.size("data") == 0


def test_files_keep_the_stripe_unit_they_were_written_with(
    files: SfioFileSystem, places: str
) -> None:
    files.pipe_file("data", b"0123456789" * 100)
    other = SfioFileSystem(listeners=places, stripe_unit=7, skip_instance_cache=True)
    assert other.cat_file("data") == b"0123456789" * 100
    with other.open("data", "r+b") as file:
        file.seek(5)
        file.write(b"-")
    assert files.cat_file("data", 3, 8) == b"34-67"
    layout = mstat(files._name("data"), files.session).layout
    assert layout is not None and layout.stripe_unit == 1000


def test_files_are_pickled_and_forgotten_ones_leave_nothing_open(tmp_path: Path) -> None:
    with listening(tmp_path) as addresses:
        files = SfioFileSystem(
            listeners=f"p1=127.0.0.1:{addresses['p1'][1]}",
            stripe_unit=1000,
            skip_instance_cache=True,
        )
        files.pipe_file("a;%3B", b"0123456789")
        assert files.ls("", detail=False) == ["a;%3B"] and (tmp_path / "a%3B%253B").exists()
        file = files.open("a;%3B")
        file.seek(3)
        again = pickle.loads(pickle.dumps(file))
        assert again.read(2) == b"34" and (file.size, file.path, file.fs, file.info()["size"]) == (
            10,
            "a;%3B",
            files,
            10,
        )
        assert (
            files.cat_file("a;%3B", start=-2) == b"89" and files.read_block("a;%3B", 1, 3) == b"123"
        )
        files.copy("a;%3B", "a;%3B")
        assert files.cat_file("a;%3B") == b"0123456789"
        with files.open("b", "wb") as writer:
            writer.write(b"abc")
            assert writer.size == 3 and writer.info()["size"] == 3
        for number in range(50):
            files.pipe_file(f"c{number}", b"x")
            assert files.open(f"c{number}").read() == b"x"  # forgotten, in the middle of calls
        del file, again
        gc.collect()
        files.cat_file("b")
        assert sum(len(link.handles) for link in files.session.links.values()) <= 1


@given(st.text("%;253Babc"))
def test_every_name_is_escaped_so_that_it_is_found_again(name: str) -> None:
    assert ";" not in escape(name) and unescape(escape(name)) == name
    assert escape(name) == name or ";" in name or "3B" in name


def test_pyarrow_makes_and_deletes_folders(files: SfioFileSystem) -> None:
    arrow = pytest.importorskip("pyarrow.fs")
    system = arrow.PyFileSystem(arrow.FSSpecHandler(files))
    system.create_dir("x/y/z")
    assert system.get_file_info("x/y/z").type == arrow.FileType.Directory
    with system.open_output_stream("x/y/f") as stream:
        stream.write(b"abc")
    system.delete_dir("x/y")
    assert system.get_file_info("x/y").type == arrow.FileType.NotFound
    assert files.ls("", detail=False) == ["x"]


def test_folders_are_moved_and_not_into_themselves(files: SfioFileSystem) -> None:
    files.pipe_file("d/e/f", b"1")
    files.mkdir("d/empty")
    with pytest.raises(OSError, match="cannot be moved into itself"):
        files.mv("d", "d/sub", recursive=True)
    with pytest.raises(IsADirectoryError):
        files.mv("d", "n")
    files.mv("d", "n", recursive=True)
    assert files.find("", withdirs=True) == ["n", "n/e", "n/e/f", "n/empty"]
    with pytest.raises(FileExistsError):
        files.makedirs("n/e")
    with pytest.raises(OSError, match="not empty"):
        files.rmdir("n/e")
    with pytest.raises(IsADirectoryError):
        files.rm("n")
    files.rm("n", recursive=True)
    assert not files.exists("n")


def test_a_listener_known_by_two_names_is_one_host(tmp_path: Path) -> None:
    with listener(tmp_path, "p1") as (process, one):
        (place,) = one.values()
        files = SfioFileSystem(
            session=session_of({"p1": place, "r0": place}), skip_instance_cache=True
        )
        assert files.hosts == ("p1",)
        files.pipe_file("data", b"abc")
        process.kill()
        process.wait()
        for ask in (files.exists, files.isfile, files.isdir):
            with pytest.raises(ListenerLost):
                ask("data")


def test_the_entry_point_names_the_file_system() -> None:
    project: Any = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())[
        "project"
    ]
    module, _, name = project["entry-points"]["fsspec.specs"]["sfio"].partition(":")
    assert getattr(import_module(module), name) is SfioFileSystem


def test_a_file_is_the_same_however_its_path_is_spelt(files: SfioFileSystem) -> None:
    files.pipe_file("a/b", b"0123456789")
    for spelling in ("/a/b", "./a/b", "a//b", "sfio:///a/./b"):
        files.copy(spelling, "a/b")
        files.mv("a/b", spelling)
        assert files.cat_file(spelling) == b"0123456789" and files.info(spelling)["name"] == "a/b"
    with pytest.raises(OSError, match="cannot be moved into itself"):
        files.mv("a", "./a/c", recursive=True)
    assert files.ls("./", detail=False) == ["a"] and files.ls("/a", detail=False) == ["a/b"]


def test_files_and_folders_may_be_called_by_dots(files: SfioFileSystem) -> None:
    files.pipe({".../....": b"1", "kept": b"2"})
    assert files.find("") == [".../....", "kept"] and files.ls("...", detail=False) == [".../...."]
    files.rm("...", recursive=True)
    assert files.find("", withdirs=True) == ["kept"]


def test_failures_of_an_open_file_raise_operating_system_errors(
    tmp_path: Path,
) -> None:
    with listener(tmp_path, "p1", limit_bytes=3000) as (_, place):
        files = SfioFileSystem(session=session_of(place), skip_instance_cache=True)
        for size in (4000, 3 << 20):
            with pytest.raises(OSError, match="File too large") as caught:
                files.pipe_file("full", bytes(size))
            assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, "full")
        files.pipe_file("data", b"0123456789")
        with files.open("data", "r+b") as writer, pytest.raises(OSError, match="File too large"):
            writer.truncate(4000)
        reader, writer = files.open("data"), files.open("data", "r+b")
        files.pipe_file("other", b"abc")
        files.mv("other", "data")
        for act in (reader.read, writer.read, lambda: writer.size):
            with pytest.raises(OSError, match="not the file that was opened"):
                act()
        reader.close()
        writer.close()
        files.mkdir("folder")
        for mode in ("rb", "r+b", "ab", "wb"):
            with pytest.raises(IsADirectoryError):
                files.open("folder", mode)


def test_a_file_that_is_appended_to_is_at_its_end_as_with_python(files: SfioFileSystem) -> None:
    for _ in range(2):
        with files.open("table", "ab") as file:
            file.write(b"row" if file.tell() else b"header")
        with files.open("text", "at", encoding="utf-16") as text:
            text.write("a")
    assert (
        files.cat_file("table") == b"headerrow"
        and files.read_text("text", encoding="utf-16") == "aa"
    )


def test_a_file_that_is_written_fails_as_files_of_python_do(files: SfioFileSystem) -> None:
    files.pipe_file("short", b"a\nb")
    with files.open("short", "r+b") as file:
        assert not zipfile.is_zipfile(file)
        with pytest.raises(OSError, match="a position of -4"):
            file.seek(-4)
        file.seek(0)
        assert (file.readlines(1), file.readlines(), file.readlines()) == ([b"a\n"], [b"b"], [])


def test_no_call_on_a_file_system_is_collective(
    places: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "LISTENERS": places,
        "RANK": "1",
        "SIZE": "2",
        "GROUP": f"unix:{tmp_path}/nobody",
    }.items():
        monkeypatch.setenv(f"SFIO_{name}", value)
    monkeypatch.setattr("sfio_emu.client.current_session._session", None)
    files = SfioFileSystem(skip_instance_cache=True)  # joins no group
    files.pipe_file("alone", b"by one process")
    pair = Session(files.session.connections, SimpleNamespace(rank=0, size=2, all_gather=print))  # type: ignore[arg-type]
    assert (
        SfioFileSystem(session=pair, skip_instance_cache=True).cat_file("alone")
        == b"by one process"
    )


def test_a_connection_that_was_collected_before_its_file_is_lost(files: SfioFileSystem) -> None:
    file = files.open("late", "ab")
    for link in files.session.links.values():
        link.connection.close()  # as the collector may
    with pytest.raises(ListenerLost):
        files.info("late")
    file.close()


def test_every_cache_of_fsspec_reads_what_is_there(files: SfioFileSystem) -> None:
    content = bytes(range(200))
    files.pipe_file("data", content)
    for kind in ("none", "readahead", "bytes", "mmap", "blockcache", "background", "first", "all"):
        with files.open("data", block_size=16, cache_type=kind) as file:
            for place in (180, 3, 199, 60):
                file.seek(place)
                assert file.read(40) == content[place : place + 40], kind


def test_links_are_neither_files_nor_folders(files: SfioFileSystem, tmp_path: Path) -> None:
    files.pipe_file("data", b"abc")
    for host in HOSTS:
        (tmp_path / host / "link").symlink_to("data")
    assert files.exists("link") and not files.isfile("link") and files.find("") == ["data"]
    with pytest.raises(OSError, match="symbolic links"):
        files.open("link")


def test_names_at_the_top_are_copied_moved_and_fetched_into_folders(
    files: SfioFileSystem, tmp_path: Path
) -> None:
    files.pipe({"a": b"1", "b": b"2", "dir/x": b"3", "there/y": b"4"})
    files.mv("a", "there")
    files.cp("b*", "there")
    files.cp("dir", "there", recursive=True)
    assert files.find("there") == ["there/a", "there/b", "there/dir/x", "there/y"]
    out = tmp_path / "out"
    out.mkdir()
    files.get("b", str(out))
    files.get("dir", str(out), recursive=True)
    assert (out / "b").read_bytes() == b"2" and (out / "dir" / "x").read_bytes() == b"3"
    for act in (lambda: files.mv("", "new", recursive=True), lambda: files.open("", "wb")):
        with pytest.raises(OSError, match=r"into itself|it is a folder"):
            act()
    assert files.find("") == ["b", "dir/x", "there/a", "there/b", "there/dir/x", "there/y"]


def test_file_named_like_a_pattern_is_moved_and_deleted_alone(files: SfioFileSystem) -> None:
    files.pipe({"a[1]": b"this", "a1": b"other", "*": b"star", "d/a*": b"", "d/ab": b""})
    files.mv("a[1]", "moved")
    files.rm("*")
    files.rm(["d/a*", "moved"])
    assert files.find("") == ["a1", "d/ab"]
    files.rm("d/*")
    assert files.find("") == ["a1"]


@pytest.mark.parametrize(
    ("name", "number"),
    [("é" * 128, errno.ENAMETOOLONG), ("d/" * 600, errno.ENAMETOOLONG), (";" * 100, errno.ENAMETOOLONG),
     ("a/../b", errno.EACCES), ("a\0b", errno.EINVAL), ("\ud800", errno.EINVAL)],
)  # fmt: skip
def test_impossible_file_names_raise_operating_system_errors(
    files: SfioFileSystem, name: str, number: int
) -> None:
    for act in (
        files.info,
        files.open,
        files.mkdir,
        files.rm_file,
        files.touch,
        lambda name: files.pipe_file(name, b""),
    ):
        with pytest.raises(OSError) as caught:
            act(name)
        assert caught.value.errno == number
    assert (
        not files.exists(name)
        and not files.isdir(name)
        and files.glob(name) == [] == files.find(name)
    )
    assert files.ls("") == []
