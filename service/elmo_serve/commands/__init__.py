"""The commands of `elmo`, one module each."""
