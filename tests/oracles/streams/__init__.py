"""A slow, plain judge of streams: from packet logs and the documents' definitions, with nothing of the product."""
