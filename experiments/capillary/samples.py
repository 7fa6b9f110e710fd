"""What a few independent samples say of their mean."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def half_width(values: Sequence[float]) -> float:
    """Half the width of the 95 % confidence interval of the mean (Student's t); 0 for a single value."""
    from scipy.stats import t

    if len(values) < 2:
        return 0.0
    return float(t.ppf(0.975, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
