"""Checkpoints of bilm-tf as TensorFlow saved them: `model.ckpt-N.index`, its data, options.json."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from elmo_model.alphabets import Alphabet, Utf8Alphabet
from elmo_model.checkpoints import allennlp, layout, options, tensor_bundle
from elmo_model.checkpoints.checkpoint import Checkpoint, CheckpointError
from elmo_model.checkpoints.source import ZIP_MAGIC, FolderSource, Source, ZipSource, head

NAME = "bilm-tf"

_ENDING = tensor_bundle.ENDING
_GREATEST_TEXT = 1 << 20  # bytes
_PATH = re.compile(r'^\s*model_checkpoint_path:\s*"([^"]*)"', re.MULTILINE)
# lm/CNN/W_cnn_0 and the like keep their names; those of the LSTMs became others in the dump:
# lm/RNN_0/rnn/multi_rnn_cell/cell_1/lstm_cell/projection/kernel is .../Cell1/LSTMCell/W_P_0.
# A model of one layer has no cell_0.
_KEPT = re.compile(r"(?:.*/)?(char_embed|embedding|CNN(?:_high_\d+|_proj)?/[Wb]_\w+)")
_LSTM = re.compile(
    r"(?:.*/)?RNN_([01])/(.*/)?(?:lstm_cell|LSTMCell)/"
    r"(projection/kernel|kernel|bias|W_P_0|W_0|B)"
)
_CELL = re.compile(r"(?:^|/)[Cc]ell_?(\d+)/")
_PARTS = {"kernel": "W_0", "bias": "B", "projection/kernel": "W_P_0"}


def recognises(path: Path) -> bool:
    """Tell whether a checkpoint and its options lie here, or whether this is an index."""
    if not path.is_dir() and head(path, len(ZIP_MAGIC)) != ZIP_MAGIC:
        return path.name.endswith(_ENDING) and tensor_bundle.is_index(path)
    files = (FolderSource(path) if path.is_dir() else ZipSource(path)).files()
    # dumped weights beside a checkpoint are the published pair
    return any(file.endswith(_ENDING) for file in files) and not any(
        file.endswith(".hdf5") for file in files
    )


def read(path: Path) -> Checkpoint:
    """Read the checkpoint that lies here. Raises CheckpointError where it is not whole."""
    source, index = _find(path)
    described = options.read(source, allennlp.options_in(source))
    origin = f"in {described.label}"
    alphabet: Alphabet
    with tensor_bundle.open_bundle(source, index) as bundle:
        arrays = Variables.of(bundle)
        if described.spells:
            config = options.config_of(described, arrays.names())
            assert config.char_cnn is not None, "options that spell"
            alphabet = Utf8Alphabet(config.char_cnn.max_characters)
        else:
            alphabet = allennlp.vocabulary_of(source, arrays)
            config = options.config_of(described, arrays.names(), alphabet.word_count)
        tensors = layout.decode(arrays, config, origin)
        layout.refuse_unexpected(arrays, config, origin, {layout.WORDS})
    return Checkpoint(source.name, NAME, config, alphabet, tensors)


@dataclass(frozen=True, slots=True)
class Variables:
    """The variables of a network in a bundle, by their published names; all others are hidden."""

    bundle: tensor_bundle.Bundle
    variables: dict[str, str]

    @classmethod
    def of(cls, bundle: tensor_bundle.Bundle) -> "Variables":
        """Map the names. Raises CheckpointError where two variables would get the same one."""
        variables: dict[str, str] = {}
        for name in bundle.names():
            published = _published(name)
            if published is None:
                continue
            if published in variables:
                raise CheckpointError(
                    f"{bundle.label}: holds {variables[published]} and {name}, "
                    f"expected one {published}"
                )
            variables[published] = name
        return cls(bundle, variables)

    @property
    def label(self) -> str:
        """How messages call the file."""
        return self.bundle.label

    def names(self) -> Collection[str]:
        """Return the published names."""
        return self.variables.keys()

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of one."""
        return self.bundle.shape(self.variables[name])

    def numbers(self, name: str) -> NDArray[np.float32]:
        """Return one. Raises CheckpointError where it is not whole."""
        return self.bundle.numbers(self.variables[name])


def _published(name: str) -> str | None:
    """Return what bilm-tf's dump calls a variable; None for what it leaves out."""
    if "softmax" in name:
        return None
    if kept := _KEPT.fullmatch(name):
        return kept[1]
    if lstm := _LSTM.fullmatch(name):
        direction, between, part = lstm.groups()
        number = _CELL.search(between or "")
        cell = f"Cell{number[1] if number else 0}/LSTMCell"
        return f"RNN_{direction}/RNN/MultiRNNCell/{cell}/{_PARTS.get(part, part)}"
    return None


def _find(path: Path) -> tuple[Source, str]:
    """Return the index that `checkpoint` names, or the only one."""
    if not path.is_dir() and path.name.endswith(_ENDING):
        return FolderSource(path.parent), path.name
    source: Source = FolderSource(path) if path.is_dir() else ZipSource(path)
    files = source.files()
    found = [file for file in files if file.endswith(_ENDING)]
    for file in files:
        if PurePosixPath(file).name == "checkpoint" and len(found) > 1:
            text = source.read(file, _GREATEST_TEXT).decode("utf-8", "replace")
            named = _PATH.search(text)
            last = PurePosixPath(named[1].replace("\\", "/")).name if named else ""
            wanted = str(PurePosixPath(file).parent / (last + _ENDING))
            found = [each for each in found if each == wanted] or found
    if len(found) != 1:
        raise CheckpointError(
            f"{source.path}: holds {', '.join(found[:5])}, expected one {_ENDING}, "
            f"or a file `checkpoint` that names one of them"
        )
    return source, found[0]
