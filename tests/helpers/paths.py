"""Where the project and its optional neighbours lie."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
"""Papers, reference cases and traces: there in development, not in a release; tests that need it skip without."""
