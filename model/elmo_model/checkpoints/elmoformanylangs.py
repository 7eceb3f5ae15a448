"""ELMoForManyLangs: a folder or zip of `config.json`, two dictionaries and two pickles.

The traps of its alphabet are in `alphabets/lexicon.py`, those of its state dicts in
`state_dict.py`. The stored bias of the forget gate already holds the 1 of training.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import BaseModel

from elmo_model.checkpoints.arrays import PLAIN, StoredArray, decode
from elmo_model.checkpoints.checkpoint import Checkpoint, CheckpointError
from elmo_model.checkpoints.options_file import Clip, OptionsFile, json_object
from elmo_model.checkpoints.pickles import read_state
from elmo_model.checkpoints.source import Source, only, source_at
from elmo_model.checkpoints.state_dict import (
    arrays_of,
    bilm_entries,
    char_cnn_entries,
    projection_entries,
)
from elmo_model.errors import shown
from elmo_model.network.config import (
    Activation,
    CharCNNConfig,
    ConfigError,
    ElmoConfig,
    LSTMConfig,
    WordsConfig,
)
from elmo_model.text.alphabets import AlphabetError, Lexicon
from elmo_model.validation import CharacterLimit, Count, Filters, Size, shown_json

NAME = "elmoformanylangs"

_MAX_JSON = 1 << 20  # bytes
_MAX_DICTIONARY = 64 << 20  # bytes
_ENCODER, _EMBEDDER = "encoder.pkl", "token_embedder.pkl"
_OWN = {_ENCODER, _EMBEDDER, "char.dic"}  # names of files that no other format has
_IDEOGRAPHIC_SPACE = "\u3000"
# The file cnn_50_100_512_4096_sample.json, with which all released models were trained. Their
# archives often name it by a path of the machine that trained them.
_RELEASED: Mapping[str, Any] = {
    "encoder": {
        "name": "elmo",
        "projection_dim": 512,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 4096,
        "n_layers": 2,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
}


def recognises(path: Path) -> bool:
    """Return whether `path` is a folder or zip with a pickle or the letters of such a model.

    The path of one of these files stands for its folder.
    """
    source = source_at(_place(path))
    return source is not None and any(map(source.named, _OWN))


def _place(path: Path) -> Path:
    return path.parent if path.name in _OWN else path


def read(path: Path) -> Checkpoint:
    """Read the model at `path`. Raises CheckpointError if it is incomplete or damaged."""
    source = source_at(_place(path))
    assert source is not None, "`recognises` accepts nothing else"
    files = _file(source, _EMBEDDER), _file(source, _ENCODER)
    settings, label, notes = _settings(source)
    embedder, encoder = (arrays_of(source.label(f), read_state(source, f)) for f in files)
    config, alphabet = _described(source, settings, label)
    tensors = {
        **decode(embedder, _embedder_entries(config), config, alphabet, label),
        **decode(encoder, bilm_entries(config.lstm), config, alphabet, label),
    }
    return Checkpoint(source.name, NAME, config, alphabet, tensors, notes=notes)


def _file(source: Source, name: str) -> str:
    return only(source, source.named(name), name)


# config.json, and the settings file that it names.


def _settings(source: Source) -> tuple[dict[str, Any], str, tuple[str, ...]]:
    """Return the settings of the network, their place for messages, and notes.

    The path in `config_path` is looked for below the folder, then its last part. If both are
    missing, the settings of the released models are assumed.
    """
    config_file = _file(source, "config.json")
    named, label = _object(source, config_file).get("config_path"), source.label(config_file)
    if not isinstance(named, str) or not named:
        raise CheckpointError(
            f"{label}: config_path is {shown_json(named)}, expected a file's name"
        )
    folder = PurePosixPath(config_file).parent
    for candidate in (PurePosixPath(named), PurePosixPath(named.replace("\\", "/")).name):
        file = str(folder / candidate)
        if _is_there(source, file):
            return _object(source, file), source.label(file), ()
    note = (
        f"{label}: config_path is {shown(named)}, which does not exist; the settings of the "
        f"released models were assumed"
    )
    return dict(_RELEASED), f"the released settings in place of {shown(named)}", (note,)


def _is_there(source: Source, file: str) -> bool:
    """Return whether a file exists in the folder of the model or below, never above."""
    parts = PurePosixPath(file)
    if not source.is_folder or parts.is_absolute() or ".." in parts.parts:
        return file in source.files
    return (source.path / file).is_file()


def _object(source: Source, file: str) -> dict[str, Any]:
    return json_object(source.label(file), source.read(file, _MAX_JSON))


def _described(
    source: Source, settings: Mapping[str, Any], label: str
) -> tuple[ElmoConfig, Lexicon]:
    """Return configuration and alphabet; the dictionaries give the rows of the tables."""
    options = OptionsFile(label, settings)
    encoder = options.section("encoder", _Encoder)
    embedding = options.section("token_embedder", _TokenEmbedder)
    characters = _dictionary(source, "char.dic") if embedding.char_dim else {}
    words = _dictionary(source, "word.dic") if embedding.word_dim else {}
    try:
        alphabet = Lexicon(characters, words, embedding.max_characters_per_token)
        config = ElmoConfig(
            _char_cnn(options, embedding, alphabet.size) if embedding.char_dim else None,
            LSTMConfig(
                layers=encoder.n_layers,
                cell=encoder.dim,
                projection=encoder.projection_dim,
                cell_clip=encoder.cell_clip or None,
                projection_clip=encoder.proj_clip or None,
                skip=True,
                forget_bias=0.0,  # the stored bias holds it already
            ),
            WordsConfig(alphabet.word_count, embedding.word_dim, projection=True)
            if embedding.word_dim
            else None,
        )
    except ConfigError as error:
        raise CheckpointError(f"{label}: {error}") from error
    except AlphabetError as error:
        place = f"{source.path}: char.dic or word.dic" if characters or words else label
        raise CheckpointError(f"{place}: {error}") from error
    return config, alphabet


class _Encoder(BaseModel):
    name: Literal["elmo"]
    n_layers: Size
    dim: Size
    projection_dim: Size
    cell_clip: Clip = None
    proj_clip: Clip = None


class _TokenEmbedder(BaseModel):
    """The width of each input; 0 means that there is no such input."""

    name: Literal["cnn"]
    word_dim: Count
    char_dim: Count
    max_characters_per_token: CharacterLimit


class _CharCNN(BaseModel):
    filters: Filters
    n_highway: Count
    activation: Activation


def _char_cnn(options: OptionsFile, embedding: _TokenEmbedder, characters: int) -> CharCNNConfig:
    """Return the character CNN; the projection belongs to it, or to the words where they are."""
    cnn = options.section("token_embedder", _CharCNN)
    return CharCNNConfig(
        characters=characters,
        embedding=embedding.char_dim,
        filters=cnn.filters,
        highways=cnn.n_highway,
        activation=cnn.activation,
        max_characters=embedding.max_characters_per_token,
        projection=not embedding.word_dim,
    )


# char.dic and word.dic.


def _dictionary(source: Source, name: str) -> dict[str, int]:
    """Read a dictionary: a text, a TAB and an id on each line. The last of equal texts counts.

    ELMoForManyLangs strips a line before it splits it, so white space before a text is no part of
    it. A text of white space alone leaves a line of one column, which the tool takes for U+3000
    (`elmo.py`, where the lexicons are read).
    """
    file = _file(source, name)
    label = source.label(file)
    try:
        content = source.read(file, _MAX_DICTIONARY).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{label}: is not UTF-8: {error}") from error
    ids: dict[str, int] = {}
    # Split at line feeds alone: U+0085 and U+2028, which `str.splitlines` splits at, are texts.
    for number, line in enumerate(content.split("\n"), start=1):
        if not line.strip():
            continue
        text, _, digits = line.strip().rpartition("\t")
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 9:
            raise CheckpointError(
                f"{label}: line {number} is {shown(line)}, expected a text, a TAB and an id"
            )
        ids[text or _IDEOGRAPHIC_SPACE] = int(digits)
    return ids


def _embedder_entries(config: ElmoConfig) -> Iterator[StoredArray]:
    ours = "token_embedder"
    if config.words:
        yield StoredArray("word_emb_layer.embedding.weight", (f"{ours}.words",), PLAIN)
    if cnn := config.char_cnn:
        table = (f"{ours}.char_cnn.characters",)
        yield StoredArray("char_emb_layer.embedding.weight", table, PLAIN)
        yield from char_cnn_entries(cnn, "convolutions.{}", "highways._layers.{}")
    yield from projection_entries("projection", ours if config.words else f"{ours}.char_cnn")
