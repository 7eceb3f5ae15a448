"""The published pair of bilm-tf and AllenNLP: `options.json` and `weights.hdf5`.

Aligned multilingual models add a matrix: `align.pth`, or the only file that ends in `.pth`
(AllenNLP 0.9, `elmo_token_embedder_multilang.py`; Schuster et al. 2019).
"""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import torch
from torch import Tensor

from elmo_model.checkpoints import bilm_layout, hdf5, options_file, pickles, vocabulary_file
from elmo_model.checkpoints.arrays import Arrays, decode
from elmo_model.checkpoints.checkpoint import Checkpoint, CheckpointError, checkpoint_of
from elmo_model.checkpoints.source import Source, in_folder, only, source_at
from elmo_model.checkpoints.state_dict import arrays_of
from elmo_model.files.atomic import replacing, write_bytes
from elmo_model.network.config import ElmoConfig
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.network.task import Task
from elmo_model.text.alphabets import Alphabet, Utf8Alphabet, WordVocabulary

NAME = "allennlp"

SOFTMAX = "softmax_weights.hdf5"
"""The ending of AllenNLP's file of a softmax, which may lie beside the pair."""

_OPTIONS = ("options.json", "options262.json")  # the multilingual models share the second

# The names in the cache folder of bio_embeddings, which have no endings.
_BIO_EMBEDDINGS = ("options_file", "weights_file")

_ALIGNMENT = ".pth"
# Weights before softmax that select the first biLSTM layer alone, which the authors align. Softmax
# makes the other two weights exactly zero.
_FIRST_LAYER = (-9e10, 1.0, -9e10)


def recognises(path: Path) -> bool:
    """Return whether a file of the pair is at `path`, or in the folder or zip at `path`."""
    source = _source_at(path)
    if source is not None:
        return any(is_options(file) or _is_weights(file) for file in source.files)
    return hdf5.is_hdf5(path) or is_options(path.name) or is_alignment(path)


def is_alignment(path: Path) -> bool:
    """Return whether `path` is a matrix beside a pair."""
    if not path.name.endswith(_ALIGNMENT) or not path.is_file() or not pickles.is_pickle(path):
        return False
    beside = in_folder(path.parent).files
    return any(map(is_options, beside)) and any(map(_is_weights, beside))


def read(path: Path) -> Checkpoint:
    """Read the pair at `path`: its folder, its zip, or either file; or the matrix beside it.

    Options without `char_cnn` describe a word-input model: the dataset `embedding` is its table,
    and the vocabulary in the same folder names the rows. Raises CheckpointError if the pair is
    incomplete or contradicts itself.
    """
    source = _source_at(path)
    if source is None and path.name.endswith(_ALIGNMENT):
        return _aligned(_read_pair(find_pair(path.parent)), in_folder(path.parent), path.name)
    checkpoint = _read_pair(find_pair(path))
    matrices = [file for file in source.files if file.endswith(_ALIGNMENT)] if source else []
    if source is None or not matrices:
        return checkpoint
    exact = [file for file in matrices if PurePosixPath(file).name == "align.pth"]
    return _aligned(checkpoint, source, only(source, exact or matrices, "align.pth"))


def read_files(options_file: Path, weights_file: Path) -> Checkpoint:
    """Read the pair from two files in any folders, with any names. Raises CheckpointError."""
    paths = str(options_file.absolute()), str(weights_file.absolute())
    source = in_folder(options_file.absolute().parent, paths)
    return _read_pair(PublishedPair(source, *paths))


def _source_at(path: Path) -> Source | None:
    # torch writes a matrix as a zip
    return None if path.name.endswith(_ALIGNMENT) and not path.is_dir() else source_at(path)


def _read_pair(pair: "PublishedPair") -> Checkpoint:
    described = options_file.read(pair.source, pair.options)
    with hdf5.datasets(pair.source, pair.weights) as arrays:
        network = network_of(described, arrays, pair.source)
    return Checkpoint(pair.name, NAME, *network)


def _aligned(pair: Checkpoint, source: Source, file: str) -> Checkpoint:
    """Add the matrix that maps vectors into a space that all languages share."""
    arrays = arrays_of(source.label(file), {"the matrix": pickles.read_matrix(source, file)})
    width = pair.config.dimension
    matrix = arrays.take("the matrix", (width, width), "lstm.projection_dim")
    tasks: tuple[Task, ...] = ()
    if pair.config.layers == len(_FIRST_LAYER):
        text = "The first layer of the biLM alone, which aligned models are used with"
        tasks = (Task("aligned", _FIRST_LAYER, description=text),)
    config = replace(pair.config, aligned=True)
    return replace(pair, config=config, tensors={**pair.tensors, "alignment": matrix}, tasks=tasks)


def network_of(
    described: options_file.OptionsFile, arrays: Arrays, source: Source
) -> tuple[ElmoConfig, Alphabet, dict[str, Tensor]]:
    """Return configuration, alphabet and tensors of bilm-tf's options and arrays.

    The vocabulary of a word-input model is in `source`. Raises CheckpointError.
    """
    alphabet: Alphabet
    if described.values.get("char_cnn") is not None:
        config = options_file.config_of(described, arrays.shapes)
        assert config.char_cnn is not None, "options with characters"
        alphabet = Utf8Alphabet(config.char_cnn.max_characters)
    else:
        alphabet = vocabulary_file.read(source)
        config = options_file.config_of(described, arrays.shapes, alphabet.word_count)
    stored, origin = bilm_layout.entries(config), described.label
    tensors = decode(arrays, stored, config, alphabet, origin, tolerated=[bilm_layout.WORDS])
    return config, alphabet, tensors


def write(elmo: ElmoNetwork, folder: str | Path) -> None:
    """Write a network as a pair into a folder, each file atomically.

    A word-input model also gets its `vocab.txt`, an aligned model its `align.pth`. Deletes files of
    an older pair that would be read in their place: `vocab.txt.gz`, and the `align.pth` of a model
    that is not aligned. Raises CheckpointError for a network that the layout cannot describe,
    OSError if the disk is full.
    """
    checkpoint = checkpoint_of(elmo)
    config, alphabet = checkpoint.config, checkpoint.alphabet
    if not isinstance(alphabet, Utf8Alphabet | WordVocabulary):
        raise CheckpointError(
            f"{folder}: the alphabet is of kind {alphabet.to_dict()['kind']!r}, and {NAME} files "
            f"hold UTF-8 bytes or a vocabulary; name a .safetensors file in place of a folder"
        )
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    if isinstance(alphabet, WordVocabulary):
        text = vocabulary_file.text_of(alphabet.words)
        write_bytes(target / "vocab.txt", text.encode("utf-8"))
        (target / "vocab.txt.gz").unlink(missing_ok=True)
    if config.aligned:
        matrix = io.BytesIO()
        torch.save(checkpoint.tensors["alignment"], matrix)
        write_bytes(target / "align.pth", matrix.getvalue())
    else:
        (target / "align.pth").unlink(missing_ok=True)
    with replacing(target / "weights.hdf5") as temporary:
        hdf5.write(temporary, bilm_layout.encode(config, checkpoint.tensors))
    text = json.dumps(options_file.options_of(config), indent=1)
    write_bytes(target / "options.json", text.encode("utf-8"))


# Which two files belong together.


@dataclass(frozen=True, slots=True)
class PublishedPair:
    """The names of an options file and a file of weights in one source."""

    source: Source
    options: str
    weights: str

    @property
    def name(self) -> str:
        """The model's name: the prefix of `..._options.json`, or the folder's name."""
        prefix = _prefix(PurePosixPath(self.options).name).rstrip("_-. ")
        return prefix if prefix and is_options(self.options) else self.source.name


def find_pair(path: Path) -> PublishedPair:
    """Return the pair at `path`: in a folder or zip, or beside one file of the two.

    Raises CheckpointError if there is none, or more than one.
    """
    source = source_at(path) or in_folder(path.parent)
    files, named = source.files, "" if source.path == path else path.name
    option_files, weights = list(filter(is_options, files)), list(filter(_is_weights, files))
    if is_options(named):
        option_files, weights = (
            [named],
            [file for file in weights if file.startswith(_prefix(named))],
        )
    elif named:
        # elmo_x_weights.hdf5 and elmo_x_weights_PubMed_only.hdf5 belong to elmo_x_options.json.
        partner = named.partition("weights")[0] + "options.json"
        is_partner = "weights" in named and partner in files
        option_files, weights = [partner] if is_partner else option_files, [named]
    if weights and not option_files:
        raise CheckpointError(
            f"{source.path}: holds no options.json, expected the options file beside {weights[0]}; "
            "`elmo download seqvec` fetches both files of SeqVec"
        )
    return PublishedPair(
        source, _options_among(source, option_files), _weights_among(source, weights)
    )


def options_in(source: Source) -> str:
    """Return the one options file of a source."""
    return _options_among(source, list(filter(is_options, source.files)))


def _options_among(source: Source, files: Sequence[str]) -> str:
    exact = [file for file in files if PurePosixPath(file).name == "options.json"]
    return only(source, exact or files, "options.json")


def _weights_among(source: Source, files: Sequence[str]) -> str:
    """Return `weights.hdf5`, or `model.hdf5` (NLPL), or the only `*weights.hdf5` or `*.hdf5`."""
    for name in "weights.hdf5", "model.hdf5":
        if exact := [file for file in files if PurePosixPath(file).name == name]:
            return only(source, exact, name)
    ending = [file for file in files if file.endswith("weights.hdf5")]
    return only(source, ending or files, "weights.hdf5 or model.hdf5")


def is_options(file: str) -> bool:
    """Tell whether a file has the name of an options file."""
    return file.endswith(_OPTIONS) or PurePosixPath(file).name == _BIO_EMBEDDINGS[0]


def _is_weights(file: str) -> bool:
    if file.endswith(SOFTMAX):
        return False
    return file.endswith(".hdf5") or PurePosixPath(file).name == _BIO_EMBEDDINGS[1]


def _prefix(file: str) -> str:
    """Return the name of an options file without its ending."""
    for ending in (*_OPTIONS, _BIO_EMBEDDINGS[0]):
        file = file.removesuffix(ending)
    return file
