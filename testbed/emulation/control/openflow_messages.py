"""OpenFlow 1.3 messages by os-ken's own parser, for the controller and for whoever speaks to a bridge without one."""

from collections.abc import Iterator

from os_ken.ofproto import ofproto_parser
from os_ken.ofproto import ofproto_v1_3 as protocol
from os_ken.ofproto import ofproto_v1_3_parser as parser
from os_ken.ofproto.ofproto_parser import MsgBase
from os_ken.ofproto.ofproto_protocol import ProtocolDesc

from testbed.openflow.rules import DROP, FailoverGroup, FlowRule

ANY_SWITCH = ProtocolDesc(version=protocol.OFP_VERSION)
"""In place of the switch that a message is for, which it need not know."""


def as_bytes(message: MsgBase, xid: int) -> bytes:
    """The message as it is sent, under that number."""
    message.set_xid(xid)
    message.serialize()
    return bytes(message.buf)


def hello(xid: int) -> bytes:
    """What opens a connection: hello, and the request to be notified of ports that go down or come back, and of nothing
    else."""
    ports = 0b111  # added, deleted, modified
    masks = [0, 0], [ports, ports], [0, 0]
    return as_bytes(parser.OFPHello(ANY_SWITCH), xid) + as_bytes(
        parser.OFPSetAsync(ANY_SWITCH, *masks), xid
    )


def barrier() -> MsgBase:
    """The switch answers when everything before it has been done."""
    return parser.OFPBarrierRequest(ANY_SWITCH)


def add_rule(rule: FlowRule, cookie: int) -> MsgBase:
    actions = [parser.OFPActionSetField(**{name: value}) for name, value in rule.set_fields]
    if rule.dec_ttl:
        actions.append(parser.OFPActionDecNwTtl())
    if rule.group:
        actions.append(parser.OFPActionGroup(rule.group))
    elif rule.out_port != DROP:
        actions.append(parser.OFPActionOutput(rule.out_port))
    apply = parser.OFPInstructionActions(protocol.OFPIT_APPLY_ACTIONS, actions)
    match = parser.OFPMatch(**dict(rule.match))
    return parser.OFPFlowMod(
        ANY_SWITCH, cookie=cookie, priority=rule.priority, match=match, instructions=[apply]
    )


def remove_rule(rule: FlowRule) -> MsgBase:
    """The one of exactly that match and priority."""
    match = parser.OFPMatch(**dict(rule.match))
    return _removal(protocol.OFPFC_DELETE_STRICT, priority=rule.priority, match=match)


def remove_cookie(cookie: int) -> MsgBase:
    """All rules of that cookie."""
    return _removal(protocol.OFPFC_DELETE, cookie=cookie, cookie_mask=0xFFFFFFFFFFFFFFFF)


def _removal(command: int, **about: object) -> MsgBase:
    anywhere = {"out_port": protocol.OFPP_ANY, "out_group": protocol.OFPG_ANY}
    return parser.OFPFlowMod(ANY_SWITCH, command=command, **anywhere, **about)


def add_group(group: FailoverGroup) -> MsgBase:
    buckets = [
        parser.OFPBucket(
            watch_port=bucket.watch_port,
            watch_group=protocol.OFPG_ANY,
            actions=[
                *(parser.OFPActionSetField(**{name: value}) for name, value in bucket.set_fields),
                parser.OFPActionOutput(bucket.out_port),
            ],
        )
        for bucket in group.buckets
    ]
    return parser.OFPGroupMod(
        ANY_SWITCH, protocol.OFPGC_ADD, protocol.OFPGT_FF, group.number, buckets
    )


def is_down(status: MsgBase) -> bool:
    """Whether a port of which a switch reports carries nothing."""
    port = status.desc
    return bool(port.state & protocol.OFPPS_LINK_DOWN or port.config & protocol.OFPPC_PORT_DOWN)


class SwitchReader:
    """Bytes of one switch in, its messages out."""

    def __init__(self) -> None:
        self._buffer = b""

    def receive(self, data: bytes) -> Iterator[MsgBase]:
        """Everything that is complete with these bytes, in order."""
        self._buffer += data
        while len(self._buffer) >= protocol.OFP_HEADER_SIZE:
            version, kind, length, xid = ofproto_parser.header(self._buffer)
            if len(self._buffer) < length:
                return
            whole, self._buffer = self._buffer[:length], self._buffer[length:]
            yield ofproto_parser.msg(ANY_SWITCH, version, kind, length, xid, whole)
