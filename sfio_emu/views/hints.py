"""Hints: what a program says of how it will use a file (MPI 4.0, sections 10 and 14.2.8), as texts by name.
Those that are known here are obeyed; MPI wants all others ignored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sfio_emu.errors import UsageError, whole_number

_SWITCHES = {"true": True, "enable": True, "false": False, "disable": False, "automatic": False}


@dataclass(frozen=True, kw_only=True)
class Hints:
    """The hints that are obeyed, by MPI's reserved names.

    `collective_buffering`: collective accesses go in two phases, over the processes that gather (`romio_cb_write` and
    `romio_cb_read` say it of one direction); `cb_nodes`: how many processes gather (all, where it is 0);
    `cb_buffer_size`: bytes that each of them holds at a time.
    """

    buffer_writes: bool = False
    buffer_reads: bool = False
    cb_nodes: int = 0
    cb_buffer_size: int = 16 << 20

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Hints:
        """The hints of a program. Raises UsageError for a known hint with a value that makes no sense.

        >>> Hints.read({"collective_buffering": "true", "cb_nodes": "2", "access_style": "sequential"}).cb_nodes
        2
        """
        if not isinstance(given, Mapping):
            raise UsageError(f"the hints are {given!r}: give names and texts, as in {{'cb_nodes': '2'}}")
        both = _switch(given, "collective_buffering", False)
        return cls(
            buffer_writes=_switch(given, "romio_cb_write", both),
            buffer_reads=_switch(given, "romio_cb_read", both),
            cb_nodes=_number(given, "cb_nodes", cls.cb_nodes, 1),
            cb_buffer_size=_number(given, "cb_buffer_size", cls.cb_buffer_size, 4096),
        )

    def texts(self) -> dict[str, str]:
        """The hints in use, as MPI_File_get_info gives them."""
        return {
            "romio_cb_write": "enable" if self.buffer_writes else "disable",
            "romio_cb_read": "enable" if self.buffer_reads else "disable",
            "collective_buffering": "true" if self.buffer_writes and self.buffer_reads else "false",
            "cb_nodes": str(self.cb_nodes),
            "cb_buffer_size": str(self.cb_buffer_size),
        }


def _switch(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = str(given.get(name, "")).lower()
    if not text:
        return default
    if text not in _SWITCHES:
        raise UsageError(f"the hint {name} is {given[name]!r}: give 'true' or 'false'")
    return _SWITCHES[text]


def _number(given: Mapping[str, str], name: str, default: int, least: int) -> int:
    if name not in given:
        return default
    text = str(given[name])
    return whole_number(int(text) if text.isascii() and text.isdigit() else given[name], f"hint {name}", least)  # type: ignore[arg-type]
