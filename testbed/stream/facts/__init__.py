"""What one run of one plan was like: facts that every judgement of it needs; pure."""
