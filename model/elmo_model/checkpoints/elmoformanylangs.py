"""ELMoForManyLangs: a folder or zip of `config.json`, two dictionaries and two pickles.

The traps of its alphabet are in `alphabets/lexicon.py`, those of its state dicts in
`state_dict.py`. The stored bias of the forget gate already holds the 1 of training.
"""

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from torch import Tensor

from elmo_model.alphabets import AlphabetError, Lexicon
from elmo_model.checkpoints.checkpoint import Checkpoint, CheckpointError
from elmo_model.checkpoints.pickles import read_state
from elmo_model.checkpoints.source import FolderSource, Source, source_at
from elmo_model.checkpoints.state_dict import Stored, bilm_of, char_cnn_of, projection_of
from elmo_model.config import CharCNNConfig, ConfigError, ElmoConfig, LSTMConfig, WordsConfig

NAME = "elmoformanylangs"

_MAX_JSON = 1 << 20  # bytes
_MAX_DICTIONARY = 64 << 20  # bytes
_ENCODER, _EMBEDDER = "encoder.pkl", "token_embedder.pkl"
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
    """Return whether `path` is a folder or zip with both pickles."""
    source = source_at(path)
    if source is None:
        return False
    return {_ENCODER, _EMBEDDER} <= {PurePosixPath(file).name for file in source.files()}


def read(path: Path) -> Checkpoint:
    """Read the model at `path`. Raises CheckpointError if it is incomplete or damaged."""
    source = source_at(path)
    assert source is not None, "`recognises` accepts nothing else"
    settings, label, notes = _settings(source)
    embedder = read_state(source, _file(source, _EMBEDDER))
    encoder = read_state(source, _file(source, _ENCODER))
    config, alphabet = _described(source, settings, label, embedder)
    tensors = _decode(
        config,
        Stored(source.label(_file(source, _EMBEDDER)), embedder, label),
        Stored(source.label(_file(source, _ENCODER)), encoder, label),
    )
    return Checkpoint(source.name, NAME, config, alphabet, tensors, notes=notes)


def _file(source: Source, name: str) -> str:
    found = [file for file in source.files() if PurePosixPath(file).name == name]
    if len(found) != 1:
        has = ", ".join(found[:5]) or f"no {name}"
        raise CheckpointError(f"{source.path}: holds {has}, expected one {name}")
    return found[0]


# config.json, and the settings file that it names.


def _settings(source: Source) -> tuple[dict[str, Any], str, tuple[str, ...]]:
    """Return the settings of the network, their place for messages, and notes.

    The path in `config_path` is looked for below the folder, then its last part. If both are
    missing, the settings of the released models are assumed.
    """
    config = _object(source, _file(source, "config.json"))
    named = config.get("config_path")
    label = source.label(_file(source, "config.json"))
    if not isinstance(named, str) or not named:
        raise CheckpointError(f"{label}: config_path is {named!r:.80}, expected a file's name")
    folder = PurePosixPath(_file(source, "config.json")).parent
    for candidate in (PurePosixPath(named), PurePosixPath(named.replace("\\", "/")).name):
        file = str(folder / candidate)
        if _is_there(source, file):
            return _object(source, file), source.label(file), ()
    note = (
        f"{label}: config_path is {named!r:.80}, which does not exist; the settings of the "
        f"released models were assumed"
    )
    return dict(_RELEASED), f"the released settings in place of {named!r:.80}", (note,)


def _is_there(source: Source, file: str) -> bool:
    """Return whether a file exists in the folder of the model or below, never above."""
    parts = PurePosixPath(file)
    if not isinstance(source, FolderSource) or parts.is_absolute() or ".." in parts.parts:
        return file in source.files()
    return (source.path / file).is_file()


def _object(source: Source, file: str) -> dict[str, Any]:
    label = source.label(file)
    try:
        values = json.loads(source.read(file, _MAX_JSON))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{label}: is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{label}: holds a {type(values).__name__}, expected an object")
    return values


def _described(
    source: Source, settings: Mapping[str, Any], label: str, embedder: Mapping[str, Tensor]
) -> tuple[ElmoConfig, Lexicon]:
    """Return configuration and alphabet; dictionaries and tables must agree in size."""
    value = _Values(label, settings)
    if value.of("encoder", "name") != "elmo":
        raise value.wrong("encoder.name", value.of("encoder", "name"), "'elmo'")
    if value.of("token_embedder", "name") != "cnn":
        raise value.wrong("token_embedder.name", value.of("token_embedder", "name"), "'cnn'")
    word, character = value.whole("word_dim"), value.whole("char_dim")
    limit = value.of("token_embedder", "max_characters_per_token")
    projection = value.of("encoder", "projection_dim")
    characters = _dictionary(source, "char.dic") if character else {}
    words = _dictionary(source, "word.dic") if word else {}
    try:
        alphabet = Lexicon(characters, words, limit)
        config = ElmoConfig(
            _char_cnn(value, alphabet.size, own=not word) if character else None,
            LSTMConfig(
                layers=value.of("encoder", "n_layers"),
                cell=value.of("encoder", "dim"),
                projection=projection,
                cell_clip=value.clip("cell_clip"),
                projection_clip=value.clip("proj_clip"),
                skip=True,
                forget_bias=0.0,  # the stored bias holds it already
            ),
            WordsConfig(alphabet.word_count, word, projection=True) if word else None,
        )
    except (ConfigError, AlphabetError, TypeError) as error:
        raise CheckpointError(f"{label}: {error}") from error
    _check_rows(source, alphabet, embedder)
    return config, alphabet


def _check_rows(source: Source, alphabet: Lexicon, embedder: Mapping[str, Tensor]) -> None:
    """Raise CheckpointError if a table has other rows than its dictionary has ids."""
    pickle = source.label(_file(source, _EMBEDDER))
    for dictionary, rows, name in (
        ("char.dic", alphabet.size, "char_emb_layer.embedding.weight"),
        ("word.dic", alphabet.word_count, "word_emb_layer.embedding.weight"),
    ):
        if rows and name in embedder and embedder[name].shape[0] != rows:
            raise CheckpointError(
                f"{pickle}: {name} has {embedder[name].shape[0]:,} rows, expected {rows:,} by the "
                f"greatest id in {source.label(_file(source, dictionary))}"
            )


def _char_cnn(value: "_Values", characters: int, own: bool) -> CharCNNConfig:
    """Return the character CNN; `own` is whether the projection belongs to it or to the words."""
    filters = value.of("token_embedder", "filters")
    sound = isinstance(filters, list) and all(
        isinstance(pair, list) and len(pair) == 2 for pair in filters
    )
    if not sound:
        raise value.wrong("token_embedder.filters", filters, "a list of [width, count]")
    return CharCNNConfig(
        characters=characters,
        embedding=value.whole("char_dim"),
        filters=tuple((width, count) for width, count in filters),
        highways=value.of("token_embedder", "n_highway"),
        activation=value.of("token_embedder", "activation"),
        max_characters=value.of("token_embedder", "max_characters_per_token"),
        projection=own,
    )


class _Values:
    """The settings of the network. Each method reads one value and raises CheckpointError."""

    def __init__(self, label: str, values: Mapping[str, Any]) -> None:
        self.label = label
        self.values = values

    def of(self, section: str, key: str) -> Any:
        """Return a value as it is; None if it is missing."""
        part = self.values.get(section)
        if not isinstance(part, dict):
            raise self.wrong(section, part, "an object")
        return part.get(key)

    def whole(self, key: str) -> int:
        """Return a width of the token embedder; 0 means that it has no such input."""
        value = self.of("token_embedder", key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.wrong(f"token_embedder.{key}", value, "a whole number of at least 0")
        return value

    def clip(self, key: str) -> float | None:
        """Return a clip of the encoder; None if it is missing, null or 0."""
        value = self.of("encoder", key)
        if value is None:
            return None
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 <= value < float("inf"):
            raise self.wrong(f"encoder.{key}", value, "a number of at least 0, or null")
        return float(value) or None

    def wrong(self, key: str, value: object, expected: str) -> CheckpointError:
        """Return the error for a value."""
        return CheckpointError(f"{self.label}: {key} is {value!r:.80}, expected {expected}")


# char.dic and word.dic.


def _dictionary(source: Source, name: str) -> dict[str, int]:
    """Read a dictionary: a text, a TAB and an id on each line. The last of equal texts counts.

    ELMoForManyLangs strips a line before it splits it. A text of white space alone thus leaves a
    line of one column, which the tool takes for U+3000 (`elmo.py`, where the lexicons are read).
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
        text, _, digits = line.rstrip("\r").rpartition("\t")
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 9:
            raise CheckpointError(
                f"{label}: line {number} is {line!r:.80}, expected a text, a TAB and an id"
            )
        ids[text if text.strip() else _IDEOGRAPHIC_SPACE] = int(digits)
    if not ids:
        raise CheckpointError(f"{label}: is empty, expected a text, a TAB and an id on each line")
    return ids


# The two pickles.


def _decode(config: ElmoConfig, embedder: Stored, encoder: Stored) -> dict[str, Tensor]:
    """Return the tensors with the names of `Elmo.state_dict`; all that is stored must be used."""
    cnn, words, lstm = config.char_cnn, config.words, config.lstm
    tensors: dict[str, Tensor] = {}
    if words:
        table = embedder.take("word_emb_layer.embedding.weight", words.count, words.width)
        tensors["token_embedder.words"] = table
    if cnn:
        table = embedder.take("char_emb_layer.embedding.weight", cnn.characters, cnn.embedding)
        tensors["token_embedder.char_cnn.characters"] = table
        tensors |= char_cnn_of(embedder, cnn, "convolutions.{}", "highways._layers.{}")
    owner = "token_embedder" if words else "token_embedder.char_cnn"
    tensors |= projection_of(embedder, "projection", owner, config)
    tensors |= bilm_of(encoder, lstm)
    embedder.refuse_more()
    encoder.refuse_more()
    return tensors
