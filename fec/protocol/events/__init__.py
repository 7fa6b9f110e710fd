"""Both ends of a stream without a fixed packet rate, with short blocks and packets in order."""
