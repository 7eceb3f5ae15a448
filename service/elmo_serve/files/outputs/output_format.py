"""The interface of an output format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias

from elmo_model.errors import OptionError
from elmo_serve.files.inputs import FileError, Sentence
from elmo_serve.selection import Output

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from elmo_serve.workers.messages import ModelInfo

Item: TypeAlias = "tuple[Sentence, NDArray[Any]]"
Items: TypeAlias = "Iterable[tuple[Sentence, NDArray[Any]]]"
Check = Callable[[Sentence], None]
Target = Path | BinaryIO
"""The path of a file to create; or an open stream, for formats with `is_stream`."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The model and the selection of layers, which describe all vectors of a file.

    `first` is the number of the first sentence, for a file with a part of a text.
    """

    model: ModelInfo
    output: Output
    first: int = 0


_SENTENCE_BYTES: Final = 300
"""Bytes of a sentence beside its vectors, about: 190 in Parquet, 220 in npz, 480 in HDF5, with 21
tokens each."""


def accept(_sentence: Sentence) -> None:
    """Accept every sentence."""


def accept_all(_output: Output) -> Check:
    """Accept every selection and every sentence."""
    return accept


def refuse_stacks(output: Output) -> Check:
    """Accept one vector a token."""
    if output.stacked:
        raise OptionError(
            "the format holds one vector per token: in place of --all, name --top, --average or "
            "--layer"
        )
    return accept_all(output)


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """One format.

    `write` writes sentences and their vectors in order, and raises OSError if the disk is full.
    `ending` is that of the parts of a folder; a file whose name ends in one of `endings` is in this
    format unless a command names another one.
    `check` is called before anything is computed, with the selection of vectors. It returns a
    function that is called with each sentence. Both raise an ElmoError for what the format cannot
    hold: the latter says what is wrong, the caller which sentence it is.
    `require` raises FileError if an optional dependency is missing. `is_stream` tells whether the
    format can be written to a pipe, `holds_pooled` whether it may hold one vector a sentence.
    `number_bytes` are those of a number in it.
    """

    write: Callable[[Target, Items, Facts], None]
    ending: str = ""
    endings: tuple[str, ...] = ()
    check: Callable[[Output], Check] = accept_all
    require: Callable[[], None] = lambda: None
    is_stream: bool = False
    holds_pooled: bool = False
    number_bytes: int = 4

    def size(self, size: int, sentences: int) -> int:
        """Return the bytes of a file, about, of vectors that have so many bytes in memory."""
        return size // 4 * self.number_bytes + sentences * _SENTENCE_BYTES


def path_of(target: Target) -> Path:
    """Return the path for a format that cannot be written to a pipe. Raises FileError."""
    if not isinstance(target, Path):
        raise FileError("HDF5 cannot be written to a pipe; name a file")
    return target
