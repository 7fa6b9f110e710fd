"""The erasure code: Reed-Solomon over GF(2^8), whole blocks in and out."""
