"""A published model: its files, the addresses that they are fetched from, and its card.

`published.toml` has a table `model` for each, with the fields of `Published`, and below it a table
`file` for each file. A file has a `path` below AllenNLP's bucket, and `also` lies at other
addresses; or it has `addresses`, the first of which is its path. `sha1` is its published checksum.
An archive has a table `member` for each file in it with a published checksum, `md5`.
`size` bounds the file of weights; where it is not published, `max_weights` does.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

# The root of AllenNLP's bucket, and the same bucket by its other name. A mirror serves the paths
# of the catalogue below its own address.
PUBLISHED = "https://s3-us-west-2.amazonaws.com/allennlp/models"
_SAME_BUCKET = "https://allennlp.s3.amazonaws.com/models"


_FILE: Final = Path(__file__).with_suffix(".toml")

_MIN_WEIGHTS: Final = 54_373_184  # bytes: those of the smallest published shape
_MAX_WEIGHTS: Final = 4 << 30  # bytes of weights whose size is not published
_OVERHEAD: Final = 1 << 20  # bytes that HDF5 may add to the weights; in `original` it adds 31,400
_BOUNDS: Final = {
    ".json": (2, 1 << 20),
    ".pth": (1, 64 << 20),
    ".zip": (1 << 10, _MAX_WEIGHTS),  # its kind is seen at its first bytes
    ".gz": (1 << 10, _MAX_WEIGHTS),
}
"""The least and the most bytes of a file by its ending."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive, known by its name in whatever folder, and its published MD5."""

    name: str
    md5: str


@dataclass(frozen=True, slots=True)
class File:
    """A file of a published model.

    `path` is its path below a mirror, and below the address of AllenNLP's bucket where `addresses`
    is empty. `addresses` are tried in their order. `min_bytes` and `max_bytes` bound its size.
    `digests` are published checksums: the name of the algorithm for hashlib, and the hexadecimal
    digits. `members` are the files of an archive whose checksums are published.
    """

    path: str
    min_bytes: int
    max_bytes: int
    addresses: tuple[str, ...] = ()
    digests: tuple[tuple[str, str], ...] = ()
    members: tuple[Member, ...] = ()

    @property
    def name(self) -> str:
        """The last part of the path: the name of the file in the cache."""
        return self.path.rpartition("/")[2]

    def urls(self, mirror: str | None = None) -> tuple[str, ...]:
        """Return the addresses to try in turn; with a mirror, the one below it alone."""
        if mirror is not None:
            return (f"{mirror.rstrip('/')}/{self.path}",)
        return self.addresses or tuple(f"{root}/{self.path}" for root in (PUBLISHED, _SAME_BUCKET))

    @property
    def is_archive(self) -> bool:
        """Whether the file is an archive, whose members are read in place."""
        return self.name.endswith((".zip", ".tar.gz", ".tgz"))


@dataclass(frozen=True, slots=True)
class Published:
    """A published model: its name, its training text in a few words, and its files.

    `tokenizer` is the name in `elmo_model.text.tokenizers` of the one that split its training text,
    and `language` the code of the text's language (ISO 639), by which `moses` splits. `size` is
    that of its weights in bytes, None where it is not published; `licence` is empty where none is
    stated.
    """

    name: str
    text: str
    files: tuple[File, ...]
    tokenizer: str = "moses"
    language: str = "en"
    size: int | None = None
    licence: str = ""

    @property
    def folder(self) -> str:
        """The name of its folder in the cache: of letters, digits, dots and hyphens."""
        return self.name.replace(":", "-").replace("/", "-")


def load() -> Iterator[Published]:
    """Yield the models of `published.toml`."""
    for values in tomllib.loads(_FILE.read_text(encoding="utf-8"))["model"]:
        files, limit = values.pop("file"), values.pop("max_weights", _MAX_WEIGHTS)
        size = values.get("size")
        weights = (_MIN_WEIGHTS, limit) if size is None else (size, size + _OVERHEAD)
        yield Published(files=tuple(_file(each, weights) for each in files), **values)


def _file(values: Mapping[str, Any], weights: tuple[int, int]) -> File:
    addresses = tuple(values.get("addresses", ()))
    path = values.get("path") or addresses[0].partition("://")[2]
    if "also" in values:
        addresses = (*File(path, 0, 0).urls(), *values["also"])
    min_bytes, max_bytes = _BOUNDS.get(Path(path).suffix, weights)
    digests = (("sha1", values["sha1"]),) if "sha1" in values else ()
    members = tuple(Member(**each) for each in values.get("member", ()))
    return File(path, min_bytes, max_bytes, addresses, digests, members)


# The NLPL repository, whose addresses follow one rule: `http://vectors.nlpl.eu/repository/20/ID.zip`
# holds a model of bilm-tf, and `.../11/ID.zip` one of ELMoForManyLangs for the CoNLL 2018 shared
# task. `nlpl:209` is of the former, `nlpl:11/144` of the latter, which `efml:nl` names by language.

_RULE = re.compile(r"nlpl[:-](?:(11|20)[/-])?([1-9][0-9]{0,5})")
_LICENCE = "CC BY 4.0"

NLPL_TEXTS = {
    195: ("ru", "Wikipedia and the Russian National Corpus, tokens"),
    196: ("ru", "Wikipedia and the Russian National Corpus, lemmas"),
    199: ("ru", "Taiga, lemmas"),
    201: ("de", "German"),
    202: ("sv", "Swedish"),
    203: ("la", "Latin"),
    209: ("en", "English"),
    210: ("nb", "Norwegian Bokmål, lemmas"),
    211: ("nb", "Norwegian Bokmål, tokens"),
    212: ("ru", "Araneum, lemmas"),
    217: ("no", "NorELMo30, Norwegian"),
    218: ("no", "NorELMo100, Norwegian"),
    219: ("en", "English"),
}
"""The known models of bilm-tf there by number: language and training text."""

LANGUAGES = (
    *("ar", "bg", "ca", "cs", "cu", "da", "de", "el", "en", "es", "et", "eu", "fa", "fi", "fr"),
    *("ga", "gl", "grc", "he", "hi", "hr", "hu", "id", "it", "ja", "ko", "la", "lv", "nl", "nb"),
    *("nn", "pl", "pt", "ro", "ru", "sk", "sl", "sv", "tr", "ug", "uk", "ur", "vi", "zh"),
)
"""The languages of ELMoForManyLangs in the order of their numbers, from 136 on. `zh` is in
traditional characters."""

UNSPACED = ("ja", "zh")
"""Languages without spaces between words, which `moses` does not find: their text comes split."""

_FIRST = 136


def nlpl_model(name: str) -> Published | None:
    """Return the model of a name in lower case: by number, by number and set, or `efml:LANGUAGE`.

    A name may also be that of its folder in the cache. Any number is taken: the repository grows.
    """
    prefix, _, language = name.replace("efml-", "efml:").partition(":")
    if prefix == "efml" and language in LANGUAGES:
        return _nlpl("11", _FIRST + LANGUAGES.index(language))
    if (match := _RULE.fullmatch(name)) is None:
        return None
    return _nlpl(match[1] or "20", int(match[2]))


def nlpl_models() -> tuple[Published, ...]:
    """Return the models of the repository whose languages are known."""
    many = (_nlpl("11", _FIRST + place) for place in range(len(LANGUAGES)))
    return (*(_nlpl("20", number) for number in NLPL_TEXTS), *many)


def _nlpl(collection: str, number: int) -> Published:
    path = f"vectors.nlpl.eu/repository/{collection}/{number}.zip"
    file = File(path, *_BOUNDS[".zip"], (f"http://{path}",))
    name, language, text = f"nlpl:{number}", "en", "NLPL repository"
    if collection == "11":
        name, text = f"nlpl:11/{number}", "NLPL repository, CoNLL 2018"
        if 0 <= number - _FIRST < len(LANGUAGES):
            language = LANGUAGES[number - _FIRST]
            name, text = f"efml:{language}", f"ELMoForManyLangs {number}, CoNLL 2018"
    elif number in NLPL_TEXTS:
        language, text = NLPL_TEXTS[number]
    tokenizer = "whitespace" if language in UNSPACED else "moses"
    return Published(name, text, (file,), tokenizer, language, licence=_LICENCE)
