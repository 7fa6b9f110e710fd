"""Schedules in other programs' formats: MSCCL's XML out, and a reader that carries it out."""
