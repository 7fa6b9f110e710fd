"""Files of text, and quantities written as text; nothing of networks."""
