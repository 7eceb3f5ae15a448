"""The published models by name: where their files lie below the published address. Data alone."""

from dataclasses import dataclass

# The layout of AllenNLP's bucket; a mirror has the same paths below an address of its own.
PUBLISHED = "https://s3-us-west-2.amazonaws.com/allennlp/models"

# Parameters of the published sizes; a file of weights holds four bytes for each, and little else.
SMALL, MEDIUM, ORIGINAL = 13_593_296, 28_027_728, 93_600_848

_OVERHEAD = 1 << 20  # bytes of HDF5 around the numbers; those of `original` are 31,400
_GREATEST_OPTIONS = 1 << 20
_GREATEST_MATRIX = 64 << 20


@dataclass(frozen=True, slots=True)
class File:
    """A file of a model: its path below the address, and the bytes that it may have."""

    path: str
    least: int
    most: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Published:
    """A published model: what it was trained on, in a few words, and its files."""

    name: str
    text: str
    files: tuple[File, ...]


def _pair(name: str, text: str, options: str, weights: str, parameters: int) -> Published:
    return Published(name, text, (_options(options), _weights(weights, parameters)))


def _released(name: str, text: str, shape: str, parameters: int) -> Published:
    prefix = f"elmo/{shape}/elmo_{shape}"
    return _pair(name, text, f"{prefix}_options.json", f"{prefix}_weights.hdf5", parameters)


def _aligned(language: str, text: str) -> Published:
    prefix = f"multilingual_elmo/{language}"
    return Published(
        f"multilingual-{language}",
        f"{text}, aligned with the other multilingual ones",
        (
            _options("multilingual_elmo/options262.json"),
            _weights(f"{prefix}_weights.hdf5", ORIGINAL, least=SMALL),  # said nowhere
            File(f"{prefix}_best_mapping.pth", 1, _GREATEST_MATRIX),
        ),
    )


def _options(path: str) -> File:
    return File(path, 2, _GREATEST_OPTIONS)


def _weights(path: str, parameters: int, least: int | None = None) -> File:
    return File(path, 4 * (least or parameters), 4 * parameters + _OVERHEAD)


_ORIGINAL = "2x4096_512_2048cnn_2xhighway"
_PUBMED = f"elmo/contributed/pubmed/elmo_{_ORIGINAL}"
_PORTUGUESE = "elmo/contributed/pt/elmo_pt"

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
                _weights(f"{_PORTUGUESE}_weights.hdf5", ORIGINAL, least=SMALL),  # said nowhere
            ),
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
