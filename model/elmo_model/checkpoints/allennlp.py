"""The published pair of bilm-tf and AllenNLP: `options.json` and `weights.hdf5`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch

from elmo_model.alphabets import Alphabet, Utf8Alphabet, WordVocabulary
from elmo_model.atomic_files import replacing
from elmo_model.checkpoints import hdf5, layout, options, vocabulary_file
from elmo_model.checkpoints.checkpoint import Checkpoint, CheckpointError, checkpoint_of
from elmo_model.checkpoints.source import ZIP_MAGIC, FolderSource, Source, ZipSource, head
from elmo_model.elmo import Elmo

NAME = "allennlp"


def recognises(path: Path) -> bool:
    """Tell whether a pair lies here: a folder or zip of it, or one file of it."""
    if path.is_dir():
        return any(_is_part(file) for file in FolderSource(path).files())
    if head(path, len(ZIP_MAGIC)) == ZIP_MAGIC:
        return any(_is_part(file) for file in ZipSource(path).files())
    return hdf5.is_hdf5(path) or _is_options(path.name)


def read(path: Path) -> Checkpoint:
    """Read the pair that lies here. Raises CheckpointError where it is not whole.

    OptionsFile without `char_cnn` are those of a word-input model: its table is the dataset
    `embedding`, its words those of the vocabulary beside it.
    """
    pair = find(path)
    described = options.read(pair.source, pair.options)
    origin = f"in {pair.options_label}"
    alphabet: Alphabet
    with hdf5.datasets(pair.source, pair.weights) as arrays:
        if described.spells:
            config = options.config_of(described, arrays.names())
            assert config.char_cnn is not None
            alphabet = Utf8Alphabet(config.char_cnn.max_characters)
        else:
            alphabet = vocabulary_of(pair.source, arrays)
            config = options.config_of(described, arrays.names(), alphabet.word_count)
        tensors = layout.decode(arrays, config, origin)
        layout.refuse_unexpected(arrays, config, origin, {layout.WORDS})
    return Checkpoint(pair.name, NAME, config, alphabet, tensors)


def vocabulary_of(source: Source, table: layout.Arrays) -> WordVocabulary:
    """Read the vocabulary beside a table of words. Raises CheckpointError if it is another's."""
    file = vocabulary_file.find(source)
    vocabulary = vocabulary_file.read(source, file)
    if layout.WORDS not in table.names():
        raise CheckpointError(
            f"{table.label}: {layout.WORDS} is missing, expected a row for each of the "
            f"{vocabulary.word_count:,} words in {source.label(file)}"
        )
    rows = (table.shape(layout.WORDS) or (0,))[0]
    if rows != vocabulary.word_count:
        raise CheckpointError(
            f"{table.label}: {layout.WORDS} has {rows:,} rows, expected "
            f"{vocabulary.word_count:,}, one for each word in {source.label(file)}"
        )
    return vocabulary


def write(elmo: Elmo, folder: str | Path) -> None:
    """Write a network as a pair into a folder, each file whole or not at all.

    A word-input model gets its `vocab.txt` beside the two, an aligned one its `align.pth`. Raises
    CheckpointError for a network that the layout cannot say.
    """
    checkpoint = checkpoint_of(elmo)
    config, alphabet = checkpoint.config, checkpoint.alphabet
    if not isinstance(alphabet, Utf8Alphabet | WordVocabulary):
        raise CheckpointError(
            f"{folder}: the alphabet is of kind {alphabet.to_dict()['kind']!r}, "
            f"expected UTF-8 bytes or a vocabulary in {NAME} files"
        )
    if config.lstm.forget_bias != layout.FORGET_BIAS:
        raise CheckpointError(
            f"{folder}: lstm.forget_bias is {config.lstm.forget_bias}, "
            f"expected {layout.FORGET_BIAS} in {NAME} files"
        )
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    if isinstance(alphabet, WordVocabulary):
        with replacing(target / "vocab.txt") as temporary:
            text = vocabulary_file.text_of(alphabet.words)
            temporary.write_bytes(text.encode("utf-8"))
    if config.aligned:
        with replacing(target / "align.pth") as temporary:
            torch.save(checkpoint.tensors["alignment"], temporary)
    with replacing(target / "weights.hdf5") as temporary:
        hdf5.write(temporary, layout.encode(config, checkpoint.tensors))
    with replacing(target / "options.json") as temporary:
        temporary.write_text(json.dumps(options.options_of(config), indent=1), encoding="utf-8")


# How the two files find each other.


@dataclass(frozen=True, slots=True)
class PublishedPair:
    """An options file and a file of weights."""

    source: Source
    options: str
    weights: str

    @property
    def options_label(self) -> str:
        """How messages call the options file."""
        return self.source.label(self.options)

    @property
    def name(self) -> str:
        """What stands before `options.json`, as in the published names, or the folder's name."""
        prefix = PurePosixPath(self.options).name.removesuffix("options.json").rstrip("_-. ")
        return prefix or self.source.name


def find(path: Path) -> PublishedPair:
    """Return the pair that lies here. Raises CheckpointError where there is none, or two."""
    if path.is_dir():
        return pair_in(FolderSource(path))
    if head(path, 4) == ZIP_MAGIC:
        return pair_in(ZipSource(path))
    folder = FolderSource(path.parent)
    if _is_options(path.name):
        prefix = path.name.removesuffix("options.json")
        beside = [file for file in folder.files() if file.startswith(prefix)]
        return PublishedPair(folder, path.name, _weights_among(folder, beside))
    # elmo_x_weights.hdf5, also elmo_x_weights_PubMed_only.hdf5, belong to elmo_x_options.json
    partner = path.name.partition("weights")[0] + "options.json"
    if "weights" in path.name and (folder.path / partner).is_file():
        return PublishedPair(folder, partner, path.name)
    return PublishedPair(folder, _options_among(folder, folder.files()), path.name)


def options_in(source: Source) -> str:
    """Return the one options file of a folder or zip."""
    return _options_among(source, source.files())


def pair_in(source: Source, leaving: str | None = None) -> PublishedPair:
    """Return the pair among the files of a folder or zip, one of them left aside."""
    files = [file for file in source.files() if file != leaving]
    return PublishedPair(source, _options_among(source, files), _weights_among(source, files))


def _options_among(source: Source, files: Sequence[str]) -> str:
    found = [file for file in files if _is_options(file)]
    exact = [file for file in found if PurePosixPath(file).name == "options.json"]
    return _only(source, exact or found, "options.json")


def _weights_among(source: Source, files: Sequence[str]) -> str:
    found = [file for file in files if file.endswith(".hdf5")]
    for names in ("weights.hdf5",), ("model.hdf5",):
        exact = [file for file in found if PurePosixPath(file).name in names]
        if exact:
            return _only(source, exact, names[0])
    ending = [file for file in found if file.endswith("weights.hdf5")]
    return _only(source, ending or found, "weights.hdf5 or model.hdf5")


def _only(source: Source, found: Sequence[str], wanted: str) -> str:
    if len(found) == 1:
        return found[0]
    if not found:
        raise CheckpointError(
            f"{source.path}: holds no {wanted}, expected it beside the other file"
        )
    raise CheckpointError(
        f"{source.path}: holds {', '.join(found[:5])}, expected one {wanted}: name the file itself"
    )


def _is_part(file: str) -> bool:
    return _is_options(file) or file.endswith(".hdf5")


def _is_options(file: str) -> bool:
    return file.endswith("options.json")
