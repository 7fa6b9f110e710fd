"""OpenFlow 1.3 messages, by os-ken's parser.

They serve the controller, and programs that communicate with a bridge without one.
"""

from collections.abc import Iterator

from os_ken.ofproto import ofproto_parser
from os_ken.ofproto import ofproto_v1_3 as protocol
from os_ken.ofproto import ofproto_v1_3_parser as parser
from os_ken.ofproto.ofproto_parser import MsgBase
from os_ken.ofproto.ofproto_protocol import ProtocolDesc

from testbed.openflow.rules import DROP, FailoverGroup, FlowRule

# Takes the place of the switch for which a message is; os-ken needs only its version.
ANY_SWITCH = ProtocolDesc(version=protocol.OFP_VERSION)

# Reasons of a report about a port: it was added, deleted or modified.
_ALL_PORT_CHANGES = 0b111


def as_bytes(message: MsgBase, xid: int) -> bytes:
    """Return a message as it is sent.

    Args:
        message: The message.
        xid: Id of the transaction.
    """
    message.set_xid(xid)
    message.serialize()
    return bytes(message.buf)


def hello(xid: int) -> bytes:
    """Return the messages that open a connection.

    After the hello, the switch is asked to report changes of ports, and nothing else.

    Args:
        xid: Id of the transaction.
    """
    # For each kind of report, the mask as master and as slave controller.
    no_packets = [0, 0]
    all_port_changes = [_ALL_PORT_CHANGES, _ALL_PORT_CHANGES]
    no_removed_flows = [0, 0]
    reports = parser.OFPSetAsync(ANY_SWITCH, no_packets, all_port_changes, no_removed_flows)
    return as_bytes(parser.OFPHello(ANY_SWITCH), xid) + as_bytes(reports, xid)


def barrier() -> MsgBase:
    """Return a request that the switch answers when it has carried out all messages before."""
    return parser.OFPBarrierRequest(ANY_SWITCH)


def add_rule(rule: FlowRule, cookie: int) -> MsgBase:
    """Return the message that adds a rule with a cookie."""
    actions = [parser.OFPActionSetField(**{name: value}) for name, value in rule.set_fields]
    if rule.dec_ttl:
        actions.append(parser.OFPActionDecNwTtl())
    if rule.group:
        actions.append(parser.OFPActionGroup(rule.group))
    elif rule.out_port != DROP:
        # A rule without an output drops packets.
        actions.append(parser.OFPActionOutput(rule.out_port))
    apply = parser.OFPInstructionActions(protocol.OFPIT_APPLY_ACTIONS, actions)
    match = parser.OFPMatch(**dict(rule.match))
    return parser.OFPFlowMod(
        ANY_SWITCH, cookie=cookie, priority=rule.priority, match=match, instructions=[apply]
    )


def remove_rule(rule: FlowRule) -> MsgBase:
    """Return the message that removes the rule with exactly this match and priority."""
    match = parser.OFPMatch(**dict(rule.match))
    return _removal(protocol.OFPFC_DELETE_STRICT, priority=rule.priority, match=match)


def remove_cookie(cookie: int) -> MsgBase:
    """Return the message that removes all rules with this cookie."""
    return _removal(protocol.OFPFC_DELETE, cookie=cookie, cookie_mask=0xFFFFFFFFFFFFFFFF)


def _removal(command: int, **fields: object) -> MsgBase:
    """Return a message that removes rules, wherever they send packets."""
    return parser.OFPFlowMod(
        ANY_SWITCH,
        command=command,
        out_port=protocol.OFPP_ANY,
        out_group=protocol.OFPG_ANY,
        **fields,
    )


def add_group(group: FailoverGroup) -> MsgBase:
    """Return the message that creates a failover group."""
    buckets = []
    for bucket in group.buckets:
        actions = [parser.OFPActionSetField(**{name: value}) for name, value in bucket.set_fields]
        actions.append(parser.OFPActionOutput(bucket.out_port))
        buckets.append(
            parser.OFPBucket(
                watch_port=bucket.watch_port, watch_group=protocol.OFPG_ANY, actions=actions
            )
        )
    return parser.OFPGroupMod(
        ANY_SWITCH, protocol.OFPGC_ADD, protocol.OFPGT_FF, group.number, buckets
    )


def is_down(status: MsgBase) -> bool:
    """Return whether the port in a report of a switch is down or has no carrier."""
    port = status.desc
    return bool(port.state & protocol.OFPPS_LINK_DOWN or port.config & protocol.OFPPC_PORT_DOWN)


class SwitchReader:
    """Decodes the messages of one switch."""

    def __init__(self) -> None:
        self._buffer = b""

    def receive(self, data: bytes) -> Iterator[MsgBase]:
        """Yield every message that these bytes complete, in order."""
        self._buffer += data
        while len(self._buffer) >= protocol.OFP_HEADER_SIZE:
            version, kind, length, xid = ofproto_parser.header(self._buffer)
            if len(self._buffer) < length:
                return
            message = self._buffer[:length]
            self._buffer = self._buffer[length:]
            yield ofproto_parser.msg(ANY_SWITCH, version, kind, length, xid, message)
