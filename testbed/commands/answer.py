"""What a command that only computes has found: one JSON object, or what people are shown of it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Answer:
    """``document``: what ``--json`` prints, with its keys of 0.2 (``former``: key -> present one); ``show`` prints the
    rest; ``exit_code``: the command's."""

    document: Mapping[str, Any]
    show: Callable[[], object]
    exit_code: int = 0
    former: Mapping[str, str] = field(default_factory=dict)

    def given(self, as_json: bool) -> int:
        """Print it; the exit code."""
        if as_json:
            from testbed.model.json_values import with_aliases  # what says --help does without

            print(json.dumps(with_aliases(self.document, self.former)))
        else:
            self.show()
        return self.exit_code
