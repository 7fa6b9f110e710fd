"""What JSON objects are typed as: their values by name, of any kind."""

from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]
"""An object of JSON, attributes, or a row of results."""
JsonObject = dict[str, Any]
"""One that is being filled."""
