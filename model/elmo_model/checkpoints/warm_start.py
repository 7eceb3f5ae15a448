"""A warm start: the state after a fixed text, from which every sentence starts.

Published models were trained with state carried from sentence to sentence, and hardly ever saw a
zero state. A constant state keeps the vectors of a sentence independent of all others.
"""

from dataclasses import replace
from pathlib import Path

import torch

from elmo_model.checkpoints.checkpoint import CheckpointError, checkpoint_of
from elmo_model.network.elmo import Elmo
from elmo_model.text.files import numbered_lines

_PASSES = 4  # as often as bio_embeddings reads its text; for more, the text may repeat itself
_MAX_TOKENS = 100_000  # of a text; more would take minutes


def warmed(elmo: Elmo, text: Path) -> Elmo:
    """Return a network that starts every sentence from the state after a text, on the same device.

    `text` has one tokenised sentence a line, which are read in order, four times, with state
    carried. The revision covers the state. Raises CheckpointError for a text without tokens or with
    too many, TextError for one that cannot be read.
    """
    sentences = [line.split() for _, _, line in numbered_lines(text)]
    tokens = sum(map(len, sentences))
    if not 0 < tokens <= _MAX_TOKENS:
        raise CheckpointError(
            f"{text}: holds {tokens:,} tokens, expected 1 to {_MAX_TOKENS:,} for a warm start"
        )
    like = next(elmo.parameters())
    state = elmo.bilm.zero_state(like, 1)
    with torch.inference_mode():
        for sentence in sentences * _PASSES:
            _, state = elmo([sentence], state)
    cold = checkpoint_of(elmo)
    start = {"start_h": state.h.cpu().clone(), "start_c": state.c.cpu().clone()}
    config = replace(cold.config, warm_start=True)
    warm = replace(cold, config=config, tensors={**cold.tensors, **start})
    return warm.build().to(like.device)
