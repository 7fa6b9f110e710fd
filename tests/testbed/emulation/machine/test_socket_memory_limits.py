"""What doctor says of the kernel's socket memory limits, from a folder standing for /proc/sys/net/core."""

from __future__ import annotations

from pathlib import Path

from testbed.emulation.machine.capabilities import SOCKET_MEMORY_BYTES, _socket_memory


def test_limits_that_a_kernel_hides_inside_a_sandbox_are_no_lack(tmp_path: Path) -> None:
    found = _socket_memory(tmp_path)
    assert found.available
    assert "not shown inside a sandbox" in found.detail


def test_limits_that_suffice_are_named(tmp_path: Path) -> None:
    for name, wanted in SOCKET_MEMORY_BYTES.items():
        (tmp_path / name).write_text(f"{wanted}\n")
    found = _socket_memory(tmp_path)
    assert found.available
    assert all(f"{name} {wanted}" in found.detail for name, wanted in SOCKET_MEMORY_BYTES.items())


def test_low_limits_come_with_the_command_that_raises_them(tmp_path: Path) -> None:
    for name in SOCKET_MEMORY_BYTES:
        (tmp_path / name).write_text("212992\n")
    found = _socket_memory(tmp_path)
    assert found.mend.startswith("sudo sysctl -w ")
    assert all(
        f"net.core.{name}={wanted}" in found.mend for name, wanted in SOCKET_MEMORY_BYTES.items()
    )
