"""Pretraining of a biLM: the network that serves, a softmax over words, and what trains both."""

from elmo_model.errors import ElmoError


class TrainingError(ElmoError):
    """Options, a text or a run that cannot be trained; the message names what is at fault."""
