"""What the pages name must exist: links, files, Python names, commands with their options, studies; and pages that code
names."""

from __future__ import annotations

import argparse
import re
from functools import cache
from pathlib import Path

import pytest

from testbed.cli import COMMANDS, build_parser
from testbed.commands.studies.experiment import EXPERIMENTS, find_experiments
from testbed.conformance import registries
from tests.helpers.paths import ROOT

PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])
PACKAGES = ("testbed", "fec", "sfio_emu", "topologies", "experiments")
FOLDERS = (*PACKAGES, "benchmarks", "examples", "tests", "vagrant", "docs")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))

LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`|^ {4,}(\S.*)$", re.MULTILINE)
FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
FILE = re.compile(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w./*-]*")
MODULE = re.compile(rf"(?<![\w./-])(?:{'|'.join(PACKAGES)})(?:\.\w+)+")
COMMAND = re.compile(r"(?:^|[\s`$(])testbed ([a-z]+)\b([^`\n]*)")
STUDY = re.compile(
    r"testbed experiment run (\w+)|the stud(?:y|ies) `(\w+)`(?:(?:, | and )`(\w+)`)*|`([a-z]+_\w+) --quick"
    r"|\(`([a-z]+_\w+)`[^()`]*\*\*(?:passed|failed|cannot tell)\*\*"
)
PAGE_IN_CODE = re.compile(r"docs/[\w/]+\.md")


def _pages() -> list[object]:
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES]


@cache
def _code(page: Path) -> list[str]:
    """Every stretch of code on the page: between backticks, in fences, indented."""
    text = page.read_text()
    fences = [fence.group() for fence in FENCED.finditer(text)]
    return fences + [
        found.group(1) or found.group(2) for found in CODE.finditer(FENCED.sub("", text))
    ]


@cache
def _options(command: str) -> frozenset[str]:
    """Long and short options of a command, those of its actions (``topology show``) too."""
    parser: argparse.ArgumentParser = build_parser(command)
    found: set[str] = set()
    waiting = [parser]
    while waiting:
        parser = waiting.pop()
        found |= set(parser._option_string_actions)
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                waiting += list(action.choices.values())
    return frozenset(found)


@pytest.mark.parametrize("page", _pages())
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in LINK.findall(page.read_text()):
        path, _, heading = target.partition("#")
        if target.startswith(("http://", "https://")):
            continue
        there = page.parent / path if path else page
        if not there.exists() or (heading and heading not in _headings(there)):
            broken.append(target)
    assert not broken


@cache
def _headings(page: Path) -> set[str]:
    """Anchors as the usual renderers make them of headings."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", _pages())
def test_files_and_folders_named_exist(page: Path) -> None:
    named = {path.rstrip(".-") for code in _code(page) for path in FILE.findall(code)}
    assert not [path for path in sorted(named) if not _there(path)]


@cache
def _there(path: str) -> bool:
    return any(ROOT.glob(path)) if "*" in path else (ROOT / path).exists()


@pytest.mark.parametrize("page", _pages())
def test_modules_that_are_named_bare_exist(page: Path) -> None:
    named = {code for code in _code(page) if re.fullmatch(r"\w+\.py", code)}
    assert not sorted(named - {path.name for path in SOURCES} - {"program.py", "matrix.py"})


@pytest.mark.parametrize("page", _pages())
def test_python_names_exist(page: Path) -> None:
    named = {name for code in _code(page) for name in MODULE.findall(code)}
    assert not [name for name in sorted(named) if not _defined(name)]


@cache
def _defined(name: str) -> bool:
    """Is ``name`` an entry-point group, a module, or what a module (or a class in it) defines? Read, not imported."""
    if name in {EXPERIMENTS.group, *registries()}:
        return True
    words = name.split(".")
    for length in range(len(words), 0, -1):
        base = ROOT.joinpath(*words[:length])
        source = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
        if source.is_file():
            text = source.read_text()
            return all(re.search(rf"\b{word}\b", text) for word in words[length : length + 2])
    return False


@pytest.mark.parametrize("page", _pages())
def test_commands_and_their_options_exist(page: Path) -> None:
    wrong = []
    for code in _code(page):
        for command, rest in COMMAND.findall(code):
            if command not in COMMANDS:
                wrong.append(f"testbed {command}")
                continue
            if command in ("experiment", "run", "exec", "python"):
                continue  # options of an experiment are its own; behind -- and SCRIPT stands another program
            words = re.findall(r"(?<![\w-])--?[a-z][\w-]*", rest.split(" # ")[0])
            wrong += [
                f"testbed {command} {word}" for word in words if word not in _options(command)
            ]
    assert not wrong


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        build_parser(command).parse_args([command, "--help"])
    assert end.value.code == 0 and f"testbed {command}" in capsys.readouterr().out


def test_studies_that_are_named_exist() -> None:
    known = set(find_experiments())
    named = {
        name
        for page in PAGES
        for match in STUDY.findall(page.read_text())
        for name in match
        if name
    }
    assert len(named) > 20
    assert not sorted(named - known - {"NAME", "run"})


def test_every_study_is_named_on_a_page_of_replication() -> None:
    text = "".join(page.read_text() for page in (ROOT / "docs" / "replication").glob("*.md"))
    assert not [
        name for name in find_experiments() if f"`{name}" not in text and f"run {name}" not in text
    ]


def test_pages_that_code_names_exist() -> None:
    files = [
        *SOURCES,
        ROOT / "constraints.txt",
        ROOT / "Makefile",
        ROOT / "vagrant" / "provision.sh",
    ]
    named = {
        (str(file.relative_to(ROOT)), page)
        for file in files
        for page in PAGE_IN_CODE.findall(file.read_text())
    }
    assert not [(file, page) for file, page in sorted(named) if not (ROOT / page).is_file()]
