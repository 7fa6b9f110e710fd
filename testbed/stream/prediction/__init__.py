"""What theory says of a stream: block sizes, losses, redundancy; pure."""
