"""The receiving end of a stream whose ordinary packets are received in C."""
