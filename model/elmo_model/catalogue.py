"""The models that have names: built-in ones, and published ones with the paths of their files.

A module without torch: the server and the command line resolve names before torch is imported.
"""

import difflib
from dataclasses import dataclass

# The root of AllenNLP's bucket. A mirror serves the same paths below its own address.
PUBLISHED = "https://s3-us-west-2.amazonaws.com/allennlp/models"

# Numbers of parameters of the published sizes. A file of weights has four bytes for each.
SMALL, MEDIUM, ORIGINAL = 13_593_296, 28_027_728, 93_600_848

_OVERHEAD = 1 << 20  # bytes that HDF5 may add to the weights; in `original` it adds 31,400
_MAX_OPTIONS = 1 << 20  # bytes
_MAX_MATRIX = 64 << 20  # bytes


@dataclass(frozen=True, slots=True)
class File:
    """A file of a published model: its path below the address, and its size range in bytes."""

    path: str
    least: int
    most: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Published:
    """A published model: its name, its training text in a few words, and its files.

    `tokenizer` is the name in `elmo_model.tokenizers` of the one that split its training text, and
    `language` the code of the text's language (ISO 639-1), by which `moses` splits.
    """

    name: str
    text: str
    files: tuple[File, ...]
    tokenizer: str = "moses"
    language: str = "en"


def _pair(name: str, text: str, options: str, weights: str, parameters: int) -> Published:
    return Published(name, text, (_options(options), _weights(weights, parameters)))


def _released(name: str, text: str, shape: str, parameters: int) -> Published:
    prefix = f"elmo/{shape}/elmo_{shape}"
    return _pair(name, text, f"{prefix}_options.json", f"{prefix}_weights.hdf5", parameters)


def _aligned(language: str, text: str) -> Published:
    prefix = f"multilingual_elmo/{language}"
    return Published(
        f"multilingual-{language}",
        f"{text}, aligned with the other multilingual models",
        (
            _options("multilingual_elmo/options262.json"),
            _weights(f"{prefix}_weights.hdf5", ORIGINAL, least=SMALL),  # the size is not published
            File(f"{prefix}_best_mapping.pth", 1, _MAX_MATRIX),
        ),
        language=language,
    )


def _options(path: str) -> File:
    return File(path, 2, _MAX_OPTIONS)


def _weights(path: str, parameters: int, least: int | None = None) -> File:
    return File(path, 4 * (least or parameters), 4 * parameters + _OVERHEAD)


_ORIGINAL = "2x4096_512_2048cnn_2xhighway"
_PUBMED = f"elmo/contributed/pubmed/elmo_{_ORIGINAL}"
_PORTUGUESE = "elmo/contributed/pt/elmo_pt"

BUILT_IN = {
    "english": "a small English model, trained for this program",
    "random-small": "the published small shape with random weights",
}
"""The models that come with the program: their names, and a few words on each."""

CATALOGUE = {
    model.name: model
    for model in (
        _released("small", "1 Billion Word Benchmark", "2x1024_128_2048cnn_1xhighway", SMALL),
        _released("medium", "1 Billion Word Benchmark", "2x2048_256_2048cnn_1xhighway", MEDIUM),
        _released("original", "1 Billion Word Benchmark", _ORIGINAL, ORIGINAL),
        _released("5.5b", "Wikipedia and news crawl", f"{_ORIGINAL}_5.5B", ORIGINAL),
        _pair(
            "pubmed",
            "PubMed",
            f"{_PUBMED}_options.json",
            f"{_PUBMED}_weights_PubMed_only.hdf5",
            ORIGINAL,
        ),
        Published(
            "portuguese",
            "Portuguese",
            (
                _options(f"{_PORTUGUESE}_options.json"),
                _weights(
                    f"{_PORTUGUESE}_weights.hdf5", ORIGINAL, least=SMALL
                ),  # the size is not published
            ),
            language="pt",
        ),
        _aligned("en", "English"),
        _aligned("es", "Spanish"),
        _aligned("fr", "French"),
        _aligned("it", "Italian"),
        _aligned("pt", "Portuguese"),
        _aligned("sv", "Swedish"),
        _aligned("de", "German"),
    )
}
"""The published models by name."""

_BUILT_IN_TOKENIZERS = {"english": "ptb"}

_SPELLINGS = {name.casefold(): name for name in (*BUILT_IN, *CATALOGUE)}


def canonical(name: str) -> str:
    """Return a model name as it is spelt here, given in any case; other strings unchanged."""
    return _SPELLINGS.get(name.casefold(), name)


def published_model(name: str) -> Published | None:
    """Return the published model of this name, in any case; None if there is none."""
    return CATALOGUE.get(canonical(name))


def tokenization(name: str) -> tuple[str, str]:
    """Return the tokenizer and the language of a model, by its name: `("moses", "en")` if unknown.

    A checkpoint is known by the name in it, or by that of its folder.
    """
    model = published_model(name)
    if model is None:
        return _BUILT_IN_TOKENIZERS.get(canonical(name), "moses"), "en"
    return model.tokenizer, model.language


def missing(name: str) -> str:
    """Return the error message for a path that does not exist; it explains names and misspellings.

    The caller takes paths. A name that reaches it was not resolved: built-in names are taken by
    `elmo_model.pretrained.open_model`, published names by `elmo_serve.model_cache.locate`.
    """
    known = canonical(name)
    if known in BUILT_IN:
        return (
            f"{name}: does not exist, expected the path of a checkpoint; the built-in model of "
            f"this name is opened by elmo_model.pretrained.open_model"
        )
    if known in CATALOGUE:
        return (
            f"{name}: does not exist, expected the path of a checkpoint; the published model of "
            f"this name is fetched by `elmo download {known}`, which prints its path"
        )
    if "/" in name:  # a path, and no misspelt name
        return f"{name}: does not exist, expected a checkpoint"
    close = difflib.get_close_matches(name.casefold(), _SPELLINGS, n=1)
    meant = f"; did you mean {_SPELLINGS[close[0]]}?" if close else ","
    return (
        f"{name}: does not exist{meant} expected the path of a checkpoint, or one of "
        f"{', '.join(_SPELLINGS.values())}"
    )
