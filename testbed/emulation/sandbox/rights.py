"""What a user's program in a sandbox may do: as root it would otherwise be root on the machine."""

from collections.abc import Sequence

_RIGHTS = (
    "chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,net_bind_service,net_broadcast,net_admin,net_raw,ipc_lock,ipc_owner,"
    "sys_chroot,sys_nice,sys_resource,audit_write"
)
"""Capabilities of root (see capabilities(7)) that a program in a host keeps: over files, over its host's network, over
itself."""


def confined(argv: Sequence[str]) -> list[str]:
    """The command line that runs a user's program where it already is, without the rights to change the machine, or
    gain them: no mounts, modules, devices, clocks, BPF programs, no other host's namespaces, no looking into the
    testbed's own processes.
    """
    retained = ",".join(f"+{right}" for right in _RIGHTS.split(","))
    return ["setpriv", "--no-new-privs", f"--bounding-set=-all,{retained}", *argv]
