"""Types of JSON objects, whose values are of any kind."""

from collections.abc import Mapping
from typing import Any

#: A JSON object that is only read: attributes, or a row of results.
Json = Mapping[str, Any]
#: A JSON object that is being filled.
JsonObject = dict[str, Any]
