"""Who has imported a name of ``testbed`` sees its values drawn in a notebook; the drawings are imported then."""

from topologies.text.shown import Shown


def _html(value: object) -> str:
    from testbed.api.drawing import html_of

    return html_of(value)


Shown.html = _html
