"""Who may speak: both sides of a connection prove that they have the key of the run, without saying it (HMAC-SHA256).

Each proof covers the nonces of both sides, so that an old one is of no use. What follows on the connection is not
signed: the key keeps strangers out, it does not hide or protect what passes.
"""

import hmac
from typing import Literal

from sfio_emu.errors import UsageError
from sfio_emu.message_bodies import PROOF_BYTES

MIN_KEY_BYTES = 16
NO_PROOF = bytes(PROOF_BYTES)
Side = Literal["listener", "client"]


def proof(key: bytes, side: Side, client_nonce: bytes, listener_nonce: bytes) -> bytes:
    """That `side` has the key (32 bytes)."""
    return hmac.digest(key, b"sfio " + side.encode() + client_nonce + listener_nonce, "sha256")


def key_of_text(text: str, where: str) -> bytes:
    """The key written in hexadecimal digits at `where`; raises `UsageError`."""
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) < MIN_KEY_BYTES:
        raise UsageError(
            f"{where} holds no key: write at least {2 * MIN_KEY_BYTES} hexadecimal digits"
        )
    return key
