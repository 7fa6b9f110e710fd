"""A caption that stands alone, made of what a matplotlib figure itself says: its title, what is drawn against what,
panels and lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from testbed.model.naming.printable import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_NAMED = 8
"""So many panels or lines are named; of more only the number is told."""


def caption_of(figure: Figure, name: str) -> str:
    """One or two sentences. A figure that has a caption of its own carries it as its label (``figure.set_label``).

    ``name``: of the figure, as its file is called; its words stand for a title where there is none.
    """
    own = str(figure.get_label() or "")
    if own:
        return printable(own)
    axes = [each for each in figure.axes if each.get_visible() and each.get_label() != "<colorbar>"]
    titles = list(dict.fromkeys(filter(None, (_plain(each.get_title()) for each in axes))))
    title = _plain(figure.get_suptitle()) or (titles[0] if len(titles) == 1 else name_in_words(name))
    sentences = [title.rstrip(".")]
    against = list(dict.fromkeys(filter(None, map(_against, axes))))
    if against:
        sentences.append("; ".join(against[:2]))
    if len(titles) > 1:
        sentences.append(_listed("Panels", titles))
    named = (_plain(word) for each in axes for word in each.get_legend_handles_labels()[1] if word and word[0] != "_")
    lines = list(dict.fromkeys(named))
    if len(lines) > 1:
        sentences.append(_listed("Drawn", lines))
    return printable(". ".join(words[:1].upper() + words[1:] for words in sentences) + ".")


def name_in_words(name: str) -> str:
    """A figure's name as words; one that is a number is that of the document's figure.

    >>> name_in_words("latency-over-load"), name_in_words("5.6.7"), name_in_words("5.16-5.17")
    ('latency over load', 'as in section 5.6.7 of the document', 'as in figures 5.16 and 5.17 of the document')
    """
    if re.fullmatch(r"\d+\.\d+\.\d+", name):
        return f"as in section {name} of the document"
    if re.fullmatch(r"\d+\.\d+-\d+\.\d+", name):
        return f"as in figures {name.replace('-', ' and ')} of the document"
    if re.fullmatch(r"\d+(\.\d+)?", name):
        return f"as in figure {name} of the document"
    return name.replace("_", " ").replace("-", " ")


def _against(axes: Axes) -> str:
    down, across = _plain(axes.get_ylabel()), _plain(axes.get_xlabel())
    return f"{down} against {across}" if down and across else down or across


def _listed(what: str, words: list[str]) -> str:
    return f"{what}: {'; '.join(words)}" if len(words) <= MAX_NAMED else f"{what}: {len(words)}"


def _plain(words: str) -> str:
    """Without the line breaks and the mathematics of a label."""
    return " ".join(words.replace("$", "").split())
