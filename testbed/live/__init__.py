"""The live page of a run: events that a run tells, what a page shows of them, and the process that serves it
(``adapters``)."""
