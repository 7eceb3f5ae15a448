"""A published model: its files, the addresses that they are fetched from, and its card.

`published.toml` has a table `model` for each, with the fields of `Published`, and below it a table
`file` for each file. A file has a `path` below AllenNLP's bucket, and `also` lies at other
addresses; or it has `addresses`, the first of which is its path. `sha1` is its published checksum.
An archive has a table `member` for each file in it with a published checksum, `md5`.
`size` bounds the file of weights; where it is not published, `max_weights` does.
"""

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
    """A file in an archive, known by its name in whatever folder, and its published MD5.

    `content` is the text of the file where it is known: of options, without which weights are of no
    use.
    """

    name: str
    md5: str
    content: str = ""


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
