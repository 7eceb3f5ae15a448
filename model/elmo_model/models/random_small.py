"""The published small shape with random weights, to try the program; its vectors mean nothing."""

from dataclasses import replace

import torch

from elmo_model.checkpoints.checkpoint import revision
from elmo_model.network.config import CharCNNConfig, ElmoConfig, LSTMConfig
from elmo_model.network.elmo import Elmo, Origin
from elmo_model.network.initialise import initialise
from elmo_model.text.alphabets import Utf8Alphabet

NAME = "random-small"

_SEED = 20180215
_CONFIG = ElmoConfig(
    CharCNNConfig(
        characters=Utf8Alphabet.size,
        embedding=16,
        filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
        highways=1,
        activation="relu",
        max_characters=50,
    ),
    LSTMConfig(layers=2, cell=1024, projection=128, cell_clip=3.0, projection_clip=3.0, skip=True),
)


def build() -> Elmo:
    """Return the network; a fixed seed makes its weights the same every time."""
    with torch.device("meta"):  # the modules' own initialisation would be thrown away
        elmo = Elmo(_CONFIG, Utf8Alphabet(), Origin(NAME, "random", ""))
    elmo.to_empty(device="cpu")
    initialise(elmo, torch.Generator().manual_seed(_SEED))
    elmo.origin = replace(elmo.origin, revision=revision(_CONFIG, elmo.state_dict()))
    return elmo.eval()
