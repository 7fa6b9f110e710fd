"""Names of the kernel's devices for the nodes of a network.

The name of a node is its id. Its *device* is the name of its bridge, and the beginning of the names
of its interfaces, ``DEVICE-ethPORT``. It is the node's name if the kernel and its tools accept
that, else a short name that no node has. Devices depend on the names and the numbers of ports
alone.
"""

import itertools
import re
from collections.abc import Collection, Mapping

# A name of digits alone would be the number of an interface to tcpdump and other tools.
_VALID_NAME = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9_][A-Za-z0-9_.-]*")

# Names of interfaces, and names of devices that the kernel, Open vSwitch or the testbed itself may
# have beside the network's.
_RESERVED_NAME = re.compile(
    r".*-eth\d+|lo|all|default|detour|underlay|ovs-.*|im\d+[ab]"
    r"|(bond|docker|dummy|erspan|eth|gre|gretap|ifb|ip6gre|ip6tnl|ip_vti|ip6_vti"
    r"|machines?|sit|tap|trial|tun|tunl|wg|wlan)\d+"
)

# Characters of an interface's name: IFNAMSIZ in <net/if.h> of Linux without the null character.
_MAX_LENGTH = 15


def interface_name(device: str, port: int) -> str:
    """Return the name of an interface, in the form that Mininet uses.

    >>> interface_name("h1", 0)
    'h1-eth0'
    """
    return f"{device}-eth{port}"


def device_names(hosts: Mapping[str, int], switches: Mapping[str, int]) -> dict[str, str]:
    """Return the device of each node by the node's name.

    Args:
        hosts: The highest port of each host.
        switches: The highest port of each switch.

    >>> device_names({"h1": 0, "h2": 0}, {"s1": 3})
    {'h1': 'h1', 'h2': 'h2', 's1': 's1'}
    >>> device_names({"São Paulo": 0, "7": 0}, {"a-very-long-name": 3, "s1": 3})
    {'São Paulo': 'h1', '7': 'h7', 'a-very-long-name': 's2', 's1': 's1'}
    """
    taken = {*hosts, *switches}
    devices: dict[str, str] = {}
    for letter, highest_ports in (("h", hosts), ("s", switches)):
        numbers = itertools.count(1)
        for name, highest_port in highest_ports.items():
            if _is_valid(name, highest_port):
                devices[name] = name
                continue
            device = ""
            if name.isdigit():
                device = f"{letter}{name}"
            if device in taken or not _is_valid(device, highest_port):
                candidates = (f"{letter}{number}" for number in numbers)
                device = next(candidate for candidate in candidates if candidate not in taken)
            devices[name] = device
            taken.add(device)
    return devices


def end_point_name(switch: str, taken: Collection[str]) -> str:
    """Return the name of the host at the end point of a switch.

    It has the number of the switch, as in Mininet, if no node has that name.

    Args:
        switch: Name of the switch.
        taken: Names of all nodes.

    >>> [end_point_name(name, {name}) for name in ("s1", "0", "x")]
    ['h1', 'h0', 'h_x']
    >>> end_point_name("s1", {"s1", "h1"})
    'h_s1'
    """
    number = re.fullmatch(r"s?([0-9]+)", switch)
    candidates = [f"h_{switch}"]
    if number:
        candidates.insert(0, f"h{number[1]}")
    further = (f"h_{switch}_{n}" for n in itertools.count(2))
    return next(name for name in itertools.chain(candidates, further) if name not in taken)


def _is_valid(device: str, highest_port: int) -> bool:
    """Return whether the kernel accepts this device and the names of its interfaces."""
    if not _VALID_NAME.fullmatch(device) or _RESERVED_NAME.fullmatch(device):
        return False
    return len(interface_name(device, highest_port)) <= _MAX_LENGTH
