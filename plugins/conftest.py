"""Makes the packages of this folder visible to their tests.

It makes no difference whether pip has installed them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from testbed.model.file_formats import SCHEDULE_FORMATS, SCHEDULE_VERIFIERS, TRAFFIC_FORMATS
from tests.helpers.plugin_packages import find_packages_of_the_tree

_DESCRIPTIONS = tempfile.TemporaryDirectory(prefix="testbed-plugins-")
find_packages_of_the_tree(Path(_DESCRIPTIONS.name))
for formats in (SCHEDULE_FORMATS, SCHEDULE_VERIFIERS, TRAFFIC_FORMATS):
    formats.forget_plugins()
