"""Models by name or path: the models that come with the program, and checkpoints."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from elmo_model import checkpoints
from elmo_model.checkpoints import softmax
from elmo_model.checkpoints.checkpoint import CheckpointError, revision
from elmo_model.models.catalogue import canonical, path_fault
from elmo_model.network.config import CharCNNConfig, ElmoConfig, LSTMConfig
from elmo_model.network.elmo import ElmoNetwork, Origin
from elmo_model.network.initialise import initialise
from elmo_model.text.alphabets import Utf8Alphabet

_SEED = 20180215
_RANDOM_SMALL = ElmoConfig(
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


_ENGLISH = Path(__file__).with_name("english.safetensors")
"""The weights of the built-in English model. `english.md` beside it is its model card."""


def _random_small() -> ElmoNetwork:
    """Return the published small shape with random weights, which a seed decides."""
    with torch.device("meta"):  # the modules' own initialisation would be thrown away
        elmo = ElmoNetwork(_RANDOM_SMALL, Utf8Alphabet(), Origin("random-small", "random", ""))
    elmo.to_empty(device="cpu")
    initialise(elmo, torch.Generator().manual_seed(_SEED))
    elmo.origin = replace(elmo.origin, revision=revision(_RANDOM_SMALL, elmo.state_dict()))
    return elmo.eval()


BUILT_IN: dict[str, Callable[[], ElmoNetwork]] = {
    "english": lambda: checkpoints.load(_ENGLISH),  # float32; the file holds float16
    "random-small": _random_small,
}


def open_model(name_or_path: str | Path, *, device: str | torch.device = "cpu") -> ElmoNetwork:
    """Load a built-in model by its name, in any case, or the checkpoint at a path.

    A built-in name wins over a file or folder of that name. Published models have to be downloaded
    first. Raises CheckpointError where there is neither, or the checkpoint is damaged.
    """
    name = str(name_or_path)
    if (built_in := canonical(name)) in BUILT_IN:
        return BUILT_IN[built_in]().to(device)
    if (fault := path_fault(name)) is not None:
        raise CheckpointError(fault)
    return checkpoints.load(name, device=device)


def find_softmax(
    name_or_path: str | Path, elmo: ElmoNetwork, file: Path | None = None, words: int | None = None
) -> softmax.StoredSoftmax | None:
    """Find the softmax of `elmo`, which `open_model` loaded by this name; None if it has none.

    `file` names it where it lies apart from the model. Only its first `words` words are used.
    Raises CheckpointError for one that is damaged or belongs to another network.
    """
    name = str(name_or_path)
    if file is not None:
        stored: softmax.StoredSoftmax | None = softmax.open_file(file)
    elif (built_in := canonical(name)) in BUILT_IN:
        stored = softmax.find(_ENGLISH) if built_in == "english" else None
    else:
        stored = softmax.find(Path(name))
    if stored is None:
        return None
    return stored.of_network(elmo.config.lstm.projection, elmo.origin.revision, words)


def needed_softmax(
    name_or_path: str | Path, elmo: ElmoNetwork, file: Path | None = None, words: int | None = None
) -> softmax.StoredSoftmax:
    """Return the softmax that `find_softmax` finds. Raises CheckpointError as well for none."""
    if (stored := find_softmax(name_or_path, elmo, file, words)) is None:
        raise CheckpointError(
            f"{name_or_path}: has no softmax with its vocabulary; expected a run of `elmo train`, "
            f"or a model with one beside it (docs/models.md)"
        )
    return stored
