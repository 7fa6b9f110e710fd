"""What a fault is, its grammar, schedules of faults and failure traces; pure."""
