"""Programs that run through a coded tunnel, compared with uncoded and direct paths."""
