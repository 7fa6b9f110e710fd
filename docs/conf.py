"""Configures the site that ``make docs`` builds.

It consists of the pages of this folder (MyST) and of the library's docstrings (autodoc).
"""

import re
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import generated

project = "A testbed for parallel communications"
author = "the testbed's maintainers"
version = release = tomllib.loads((generated.ROOT / "pyproject.toml").read_text())["project"][
    "version"
]
# Fields of a class stay in its description; each field is an entry of its own already.
napoleon_use_ivar = True

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
extensions += ["sphinx_copybutton"] if find_spec("sphinx_copybutton") else []
copybutton_prompt_text = r"\$ |mininet> "
copybutton_prompt_is_regexp = True
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"
source_suffix = {".md": "markdown"}
master_doc = "index"
exclude_patterns = ["_build"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]
# Errors have one name in several packages (testbed.errors, sfio_emu.errors); the link leads to the first.
suppress_warnings = ["myst.header", "misc.highlighting_failure", "ref.python"]
html_theme = "furo"
html_static_path = ["_static"]
html_favicon = "_static/icon.svg"
html_css_files = ["site.css"]
html_title = f"{project} {release}"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_search_scorer = str(Path(__file__).resolve().parent / "search_scorer.js")
man_pages = [("reference/commands", "testbed", "a testbed for parallel communications", author, 1)]
man_pages += [
    (f"reference/commands/{name}", f"testbed-{name}", one.summary, author, 1)
    for name, one in generated.COMMANDS.items()
]
if tags.has("man"):  # type: ignore[name-defined]  # noqa: F821 - of Sphinx: the manual pages are those of commands alone
    others = (
        "dev",
        "explanation",
        "howto",
        "measurements",
        "replication",
        "tutorial",
        "workloads",
        "reference/[!c]*",
    )
    exclude_patterns += others
    suppress_warnings += ["toc", "myst.xref_missing"]
autodoc_typehints = "description"
autodoc_member_order = "bysource"
default_role = "literal"
highlight_language = "none"
smartquotes = False
nitpicky = False

ANY_LINK = re.compile(r"\[([^\]`]+)\]\([^)]+\)")
FOLDER_LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)#]+)\)")


def complete(app, docname, source):  # type: ignore[no-untyped-def]
    """Insert the generated parts of a page, and replace links to folders of the repository.

    A site cannot show a folder: its name remains. A broken link stays and causes a warning.
    """
    here = (Path(app.srcdir) / docname).parent

    def named(found: re.Match[str]) -> str:
        place = (here / found[2]).resolve()
        return (
            f"{found[1]} (folder `{place.name}` of the repository)" if place.is_dir() else found[0]
        )

    source[0] = FOLDER_LINK.sub(named, generated.filled(source[0]))
    if app.tags.has("man"):
        source[0] = ANY_LINK.sub(r"\1", source[0])


def publish(app, _):  # type: ignore[no-untyped-def]
    """Write the JSON Schemas beside the site's pages."""
    if app.builder.format == "html":
        generated.publish_schemas(Path(app.outdir) / "_static" / "schemas")


def setup(app):  # type: ignore[no-untyped-def]
    """Connect the hooks of this site."""
    app.connect("source-read", complete)
    app.connect("build-finished", publish)
