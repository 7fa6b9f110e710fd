"""Authentication of the two sides of a connection by a shared key (HMAC-SHA256).

Each side proves that it has the key of the run, without sending the key. A proof covers the nonces
of both sides, so that a recorded proof cannot be used again. The messages that follow are not
signed: the key keeps strangers out, but it neither hides nor protects the data.
"""

import hmac
from typing import Literal

from sfio_emu.errors import UsageError
from sfio_emu.message_bodies import PROOF_BYTES

# A shorter key could be guessed.
MIN_KEY_BYTES = 16

# The proof that a listener without a key sends.
NO_PROOF = bytes(PROOF_BYTES)

Side = Literal["listener", "client"]


def proof(key: bytes, side: Side, client_nonce: bytes, listener_nonce: bytes) -> bytes:
    """Return the 32 bytes by which `side` proves that it has the key."""
    return hmac.digest(key, b"sfio " + side.encode() + client_nonce + listener_nonce, "sha256")


def key_of_text(text: str, where: str) -> bytes:
    """Parse a key in hexadecimal digits.

    Args:
        text: The digits.
        where: The source of the text, for the error message.

    Raises:
        UsageError: The text is not hexadecimal, or shorter than `MIN_KEY_BYTES` bytes.
    """
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) < MIN_KEY_BYTES:
        raise UsageError(
            f"{where} contains no key: write at least {2 * MIN_KEY_BYTES} hexadecimal digits"
        )
    return key
