"""Values that packages share, such as routes, schedules, wirings, verdicts and records. No I/O."""
