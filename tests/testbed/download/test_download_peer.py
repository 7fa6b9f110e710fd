"""The ends of a download take datagrams of each other's address only, and count the others."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from fec.adapters.raw_sockets import FrameSender
from fec.protocol.large_blocks import encode_acknowledgement
from testbed.download.emulated import _prepare_receiver, _prepare_sender
from testbed.download.judgement import judge_download
from testbed.download.plan import DownloadPlan
from tests.testbed.download.test_download_verdict import downloaded

PEER, OTHER = "127.0.0.2", "127.0.0.3"


class NoFrames:
    refused = 0

    def send(self, label: int, payload: bytes) -> None:
        pass


FRAMES = cast(FrameSender, NoFrames())
GAUGE = cast("memoryview[float]", memoryview(bytearray(8)).cast("d"))


@pytest.fixture
def own() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.setblocking(False)
        yield sock


def short() -> DownloadPlan:
    return replace(downloaded()[0], file_bytes=2000, limit_s=1.0)


def run_while(
    run: Any, own: socket.socket, *datagrams: tuple[str, bytes], begins_in_s: float = 0.0
) -> Any:
    """The end's result; a datagram comes every 0.2 s."""

    def send() -> None:
        for address, data in datagrams:
            time.sleep(0.2)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.bind((address, 0))
                sock.sendto(data, own.getsockname())

    others = threading.Thread(target=send)
    others.start()
    result = run(time.monotonic() + begins_in_s)
    others.join()
    return result


def test_a_forged_acknowledgement_does_not_end_a_download(own: socket.socket) -> None:
    plan = short()
    all_decoded = encode_acknowledgement(plan.parameters.stream_id, 0, 10, {0: b""})
    run = _prepare_sender(plan, PEER, FRAMES, own, GAUGE)
    forged = run_while(run, own, (OTHER, all_decoded), (OTHER, all_decoded))
    assert forged["foreign"] == 2
    run = _prepare_sender(plan, PEER, FRAMES, own, GAUGE)
    genuine = run_while(run, own, (PEER, all_decoded))
    assert genuine["foreign"] == 0
    assert genuine["sent"] < forged["sent"] / 2


def test_the_receiver_takes_packets_of_its_sender_only(own: socket.socket) -> None:
    plan = short()
    first, *more = plan.sender().packets_due(10.0, 3)
    run = _prepare_receiver(plan, PEER, FRAMES, own, GAUGE)
    result = run_while(run, own, (OTHER, first.data), (PEER, more[0].data), (PEER, more[1].data))
    assert result["counters"]["foreign"] == 1
    assert result["counters"].get("useful") == 2 == len(result["arrivals"])


def test_packets_before_the_start_are_not_arrivals(own: socket.socket) -> None:
    plan = short()
    first, second, *_ = plan.sender().packets_due(10.0, 3)
    run = _prepare_receiver(plan, PEER, FRAMES, own, GAUGE)
    result = run_while(
        run, own, (PEER, bytes(len(first.data))), (PEER, second.data), begins_in_s=0.3
    )
    assert len(result["arrivals"]) == 1 == result["counters"]["useful"]
    assert result["arrivals"][0] >= 0


def test_the_verdict_of_a_download_tells_of_datagrams_of_others() -> None:
    plan, run = downloaded()
    assert judge_download(plan, run).verdict.notes == ()
    run = replace(run, counters={**run.counters, "foreign": 1, "sent_foreign": 2})
    (note,) = judge_download(plan, run).verdict.notes
    assert note.startswith("3 datagrams came from other addresses")
