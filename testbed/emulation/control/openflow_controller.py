"""The controller's process: an os-ken OpenFlow 1.3 application that executes the requests on its standard input.

One JSON object a line in, one out; it ends when its input ends. Decisions are made in testbed.openflow.installed_plans.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import socket
import sys
import threading
import time
import traceback
from typing import Any

from os_ken import cfg
from os_ken import flags as _flags  # noqa: F401 - registers the options that the OpenFlow handler reads
from os_ken.base.app_manager import AppManager, OSKenApp
from os_ken.controller import controller as os_ken_controller
from os_ken.controller import ofp_event
from os_ken.controller.controller import Datapath
from os_ken.controller.event import EventBase
from os_ken.controller.handler import DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib import hub
from os_ken.ofproto import ofproto_v1_3
from os_ken.ofproto.ofproto_parser import MsgBase

from testbed.errors import TestbedError
from testbed.openflow.failover import FailoverGroup, groups_from_json
from testbed.openflow.installed_plans import InstalledPlans, SwitchBatch, rules_from_json
from testbed.openflow.rules import DROP, FlowRule

JsonObject = dict[str, Any]
_ANSWER_S = 20.0
_MAX_ERRORS = 5


class TestbedController(OSKenApp):  # type: ignore[misc]
    """Keeps the connections; one request at a time, each answered when every switch has confirmed it."""

    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]  # noqa: RUF012 - os-ken reads this list

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._book = InstalledPlans()
        self._changed = threading.Condition()
        self._switches: dict[int, Datapath] = {}
        self._waiting: set[tuple[int, int]] = set()
        self._sent: dict[tuple[int, int], str] = {}
        self._errors: list[str] = []
        self._ports: list[JsonObject] = []
        self._stats: dict[int, list[JsonObject]] = {}

    def start(self) -> Any:
        threading.Thread(target=self._serve, name="requests", daemon=True).start()
        return super().start()

    @set_ev_cls(ofp_event.EventOFPStateChange, [MAIN_DISPATCHER, DEAD_DISPATCHER])  # type: ignore[untyped-decorator]
    def _state_changed(self, event: EventBase) -> None:
        datapath, number = event.datapath, event.datapath.id
        with self._changed:
            if event.state == MAIN_DISPATCHER:
                self._switches[number] = datapath
            elif self._switches.get(number) is datapath:
                del self._switches[number]
            self._changed.notify_all()

    @set_ev_cls(ofp_event.EventOFPBarrierReply, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
    def _barrier_answered(self, event: EventBase) -> None:
        with self._changed:
            self._waiting.discard((event.msg.datapath.id, event.msg.xid))
            self._changed.notify_all()

    @set_ev_cls(ofp_event.EventOFPErrorMsg, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
    def _refused(self, event: EventBase) -> None:
        message = event.msg
        with self._changed:
            rule = self._sent.get((message.datapath.id, message.xid), "a message that no plan sent")
            self._errors.append(
                f"switch {message.datapath.id} refused (type {message.type}, code {message.code}) {rule}"
            )

    @set_ev_cls(ofp_event.EventOFPPortStatus, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
    def _port_changed(self, event: EventBase) -> None:
        at_s, port = time.monotonic(), event.msg.desc
        down = bool(port.state & ofproto_v1_3.OFPPS_LINK_DOWN or port.config & ofproto_v1_3.OFPPC_PORT_DOWN)
        with self._changed:
            self._ports.append({"at_s": at_s, "dpid": event.msg.datapath.id, "port": port.port_no, "up": not down})
            self._changed.notify_all()

    @set_ev_cls(ofp_event.EventOFPFlowStatsReply, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
    def _flow_stats(self, event: EventBase) -> None:
        dpid = event.msg.datapath.id
        listed = [
            {
                "dpid": dpid,
                "cookie": flow.cookie,
                "priority": flow.priority,
                "match": str(sorted(flow.match.items())),
                "packets": flow.packet_count,
                "bytes": flow.byte_count,
            }
            for flow in event.msg.body
        ]
        with self._changed:
            self._stats.setdefault(dpid, []).extend(listed)
            if not event.msg.flags & ofproto_v1_3.OFPMPF_REPLY_MORE:
                self._waiting.discard((dpid, event.msg.xid))
                self._changed.notify_all()

    def _serve(self) -> None:
        """Answer requests until the input ends, then end the process (the switches keep their rules)."""
        for line in sys.stdin:
            request = json.loads(line)
            try:
                answer = getattr(self, "_do_" + request["do"])(request)
            except TestbedError as error:
                answer = {"error": str(error)}
            except Exception as error:  # noqa: BLE001 - whatever it was, the caller waits for an answer
                traceback.print_exc()
                answer = {"error": f"controller: {type(error).__name__}: {error}"}
            _say({"id": request["id"], **answer})
        os._exit(0)

    def _do_wait(self, request: JsonObject) -> JsonObject:
        required, until = set(request["dpids"]), time.monotonic() + request["timeout_s"]
        with self._changed:
            while missing := required - self._switches.keys():
                left = until - time.monotonic()
                if left <= 0:
                    return {"missing": sorted(missing)}
                self._changed.wait(left)
        return {"missing": []}

    def _do_install(self, request: JsonObject) -> JsonObject:
        return self._carry_out(self._book.install(request["plan"], rules_from_json(request["rules"])))

    def _do_groups(self, request: JsonObject) -> JsonObject:
        with self._changed:
            self._errors.clear()
            self._sent.clear()
            groups = groups_from_json(request["groups"])
            for group in groups:
                if group.dpid not in self._switches:
                    return {"error": f"switch {group.dpid} is not connected"}
                self._send(group.dpid, _group_message(self._switches[group.dpid], group), f"{group}")
            for dpid in sorted({group.dpid for group in groups}):
                switch = self._switches[dpid]
                self._send(dpid, switch.ofproto_parser.OFPBarrierRequest(switch), answered=True)
            self._await_answers()
            return {"error": "; ".join(self._errors[:_MAX_ERRORS])} if self._errors else {}

    def _do_remove(self, request: JsonObject) -> JsonObject:
        return self._carry_out(self._book.remove(request["plan"]))

    def _do_ports(self, request: JsonObject) -> JsonObject:
        with self._changed:
            return {"events": list(self._ports)}

    def _do_ports_after(self, request: JsonObject) -> JsonObject:
        with self._changed:
            self._changed.wait_for(lambda: len(self._ports) > request["known"], request["timeout_s"])
            return {"events": self._ports[request["known"] :]}

    def _do_flows(self, request: JsonObject) -> JsonObject:
        with self._changed:
            self._stats.clear()
            for dpid, switch in self._switches.items():
                self._send(dpid, switch.ofproto_parser.OFPFlowStatsRequest(switch), answered=True)
            self._await_answers()
            return {"flows": [flow for dpid in sorted(self._stats) for flow in self._stats[dpid]]}

    def _carry_out(self, steps: tuple[SwitchBatch, ...]) -> JsonObject:
        began = time.monotonic()
        with self._changed:
            self._errors.clear()
            self._sent.clear()
            for step in steps:
                self._send_step(step)
            self._await_answers()
            if self._errors:
                more = len(self._errors) - _MAX_ERRORS
                rest = f" and {more} more" if more > 0 else ""
                return {"error": "; ".join(self._errors[:_MAX_ERRORS]) + rest}
        return {"seconds": time.monotonic() - began}

    def _send_step(self, step: SwitchBatch) -> None:
        switch = self._switches.get(step.dpid)
        if switch is None:
            self._errors.append(f"switch {step.dpid} is not connected")
            return
        parser = switch.ofproto_parser
        if step.action == "delete":
            self._send(step.dpid, _delete_message(switch, step.cookie), f"the removal of cookie {step.cookie:#x}")
        for rule in step.rules:
            self._send(step.dpid, _add_message(switch, rule, step.cookie), f"{rule}")
        self._send(step.dpid, parser.OFPBarrierRequest(switch), answered=True)

    def _send(self, dpid: int, message: MsgBase, what: str = "", *, answered: bool = False) -> None:
        switch = self._switches[dpid]
        switch.set_xid(message)
        key = (dpid, message.xid)
        if answered:
            self._waiting.add(key)
        if what:
            self._sent[key] = what
        switch.send_msg(message)

    def _await_answers(self) -> None:
        until = time.monotonic() + _ANSWER_S
        while self._waiting:
            left = until - time.monotonic()
            if left <= 0:
                silent = sorted({dpid for dpid, _ in self._waiting})
                self._waiting.clear()
                self._errors.append(f"switches {silent} gave no answer within {_ANSWER_S:g} s")
                return
            self._changed.wait(left)


def _add_message(switch: Datapath, rule: FlowRule, cookie: int) -> MsgBase:
    parser, protocol = switch.ofproto_parser, switch.ofproto
    actions = [parser.OFPActionSetField(**{name: value}) for name, value in rule.set_fields]
    if rule.dec_ttl:
        actions.append(parser.OFPActionDecNwTtl())
    if rule.group:
        actions.append(parser.OFPActionGroup(rule.group))
    elif rule.out_port != DROP:
        actions.append(parser.OFPActionOutput(rule.out_port))
    apply = parser.OFPInstructionActions(protocol.OFPIT_APPLY_ACTIONS, actions)
    return parser.OFPFlowMod(
        switch, cookie=cookie, priority=rule.priority, match=parser.OFPMatch(**dict(rule.match)), instructions=[apply]
    )


def _group_message(switch: Datapath, group: FailoverGroup) -> MsgBase:
    parser, protocol = switch.ofproto_parser, switch.ofproto
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
    return parser.OFPGroupMod(switch, protocol.OFPGC_ADD, protocol.OFPGT_FF, group.number, buckets)


def _delete_message(switch: Datapath, cookie: int) -> MsgBase:
    parser, protocol = switch.ofproto_parser, switch.ofproto
    return parser.OFPFlowMod(
        switch,
        cookie=cookie,
        cookie_mask=0xFFFFFFFFFFFFFFFF,
        command=protocol.OFPFC_DELETE,
        out_port=protocol.OFPP_ANY,
        out_group=protocol.OFPG_ANY,
    )


def _say(document: JsonObject) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def _serve_on(listening: socket.socket) -> None:
    """Have os-ken accept its switches from a socket that listens already, not from one that it opens (it knows no such option)."""

    class InheritedServer(hub.StreamServer):  # type: ignore[misc]
        def __init__(self, _: Any, handle: Any) -> None:
            self.server, self.handle = listening, handle

        def serve_forever(self) -> None:
            _say({"ready": True})
            super().serve_forever()

    os_ken_controller.StreamServer = InheritedServer


def main() -> None:
    """Accept switches on the listening socket that was passed on, and serve requests until the input ends."""
    parser = argparse.ArgumentParser(prog="openflow_controller")
    parser.add_argument("--listening-fd", type=int, required=True)
    _serve_on(socket.socket(fileno=parser.parse_args().listening_fd))
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    cfg.CONF(args=[], project="os_ken", default_config_files=[])
    AppManager.run_apps(["testbed.emulation.control.openflow_controller", "os_ken.controller.ofp_handler"])


if __name__ == "__main__":
    main()
