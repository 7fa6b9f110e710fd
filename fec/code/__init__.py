"""The erasure code: Reed-Solomon over GF(2^8), which encodes and decodes complete blocks."""
