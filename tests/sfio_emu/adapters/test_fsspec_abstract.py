"""fsspec's own tests of file systems (copy, get, put, open, pipe) on striped files: one listener for all of them."""

from __future__ import annotations

import posixpath
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest
from fsspec.tests import abstract
from fsspec.tests.abstract.open import AbstractOpenTests
from fsspec.tests.abstract.pipe import AbstractPipeTests

from sfio_emu.adapters.fsspec_files import SfioFileSystem
from tests.helpers.listeners import session_of


@pytest.fixture(scope="module")
def striped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SfioFileSystem]:
    command = [
        sys.executable,
        "-m",
        "sfio_emu.adapters.listener",
        "--root",
        str(tmp_path_factory.mktemp("nodes")),
    ]
    places = [word for host in ("p1", "p2") for word in ("--listen", f"{host}@127.0.0.1:0")]
    with subprocess.Popen([*command, *places], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ports = [int(process.stdout.readline().rpartition(":")[2]) for _ in range(2)]
        session = session_of(
            {f"p{1 + n}": ("127.0.0.1", port) for n, port in enumerate(ports)}, timeout_s=20
        )
        yield SfioFileSystem(session=session, stripe_unit=5, skip_instance_cache=True)
        session.close()
        process.kill()


class Striped(abstract.AbstractFixtures):  # type: ignore[misc]
    @pytest.fixture
    def fs(self, striped: SfioFileSystem) -> SfioFileSystem:
        return striped

    @pytest.fixture
    def fs_join(self) -> object:
        return posixpath.join

    @pytest.fixture
    def fs_path(self) -> str:
        return f"t{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def glob_source(striped: SfioFileSystem) -> str:
    """The folder that the patterns of all tests copy from or get; none of them changes it."""
    scenario: str = abstract.BaseAbstractFixtures()._glob_edge_cases_files(
        striped, posixpath.join, "patterns"
    )
    return scenario


class TestCopy(abstract.AbstractCopyTests, Striped):  # type: ignore[misc]
    # Thirty patterns; `make test` copies with the patterns of the other tests of this class.
    test_copy_glob_edge_cases = pytest.mark.long(
        abstract.AbstractCopyTests.test_copy_glob_edge_cases
    )

    @pytest.fixture
    def fs_glob_edge_cases_files(self, glob_source: str) -> str:
        return glob_source


class TestGet(abstract.AbstractGetTests, Striped):  # type: ignore[misc]
    # The file system expands patterns of get and of copy in the same way.
    test_get_glob_edge_cases = pytest.mark.soak(abstract.AbstractGetTests.test_get_glob_edge_cases)


class TestPut(abstract.AbstractPutTests, Striped):  # type: ignore[misc]
    # The local disk finds what patterns put.
    test_put_glob_edge_cases = pytest.mark.soak(abstract.AbstractPutTests.test_put_glob_edge_cases)


class TestOpen(AbstractOpenTests, Striped): ...  # type: ignore[misc]


class TestPipe(AbstractPipeTests, Striped): ...  # type: ignore[misc]
