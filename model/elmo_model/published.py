"""What a published model is: its files, the addresses that they are fetched from, and its card."""

from dataclasses import dataclass

# The root of AllenNLP's bucket, and the same bucket by its other name. A mirror serves the paths
# of the catalogue below its own address.
PUBLISHED = "https://s3-us-west-2.amazonaws.com/allennlp/models"
_SAME_BUCKET = "https://allennlp.s3.amazonaws.com/models"


@dataclass(frozen=True, slots=True)
class File:
    """A file of a published model.

    `path` is its path below a mirror, and below the address of AllenNLP's bucket where `addresses`
    is empty. `addresses` are tried in their order. `least` and `most` bound its size in bytes.
    `digests` are published checksums: the name of the algorithm for hashlib, and the hexadecimal
    digits.
    """

    path: str
    least: int
    most: int
    addresses: tuple[str, ...] = ()
    digests: tuple[tuple[str, str], ...] = ()

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

    `tokenizer` is the name in `elmo_model.tokenizers` of the one that split its training text, and
    `language` the code of the text's language (ISO 639), by which `moses` splits. `size` is that of
    its weights in bytes, None where it is not published; `licence` is empty where none is stated.
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
