"""Registers the function that displays the library's values in notebooks.

The module that draws them is imported when the first value is displayed.
"""

from topologies.text.shown import Shown


def _html(value: object) -> str:
    from testbed.api.drawing import html_of

    return html_of(value)


Shown.html = _html
