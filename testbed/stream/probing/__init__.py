"""Probing a block size: a stream at two fixed sizes, to count decoding failures against theory
(``--probe-block-size``)."""
