"""Files of other kinds than checkpoints."""
