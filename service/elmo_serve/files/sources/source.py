"""What gives the vectors of a file, wherever they are computed.

Arrays come in the order of the sentences, in groups that follow one another; between two groups
`state` is all that is needed to go on from there in another process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from elmo_serve.workers.messages import ModelInfo

Vectors = NDArray[Any]
Tokens = Sequence[str]
Computed = Callable[[int], None]
"""Told how many more tokens were computed, as often as it is worth showing."""


class Source(Protocol):
    """Sentences to vectors."""

    @property
    def info(self) -> ModelInfo: ...

    def groups(self, sentences: Iterable[Tokens], computed: Computed) -> Iterator[list[Vectors]]:
        """Yield every sentence's vectors, in order."""

    def state(self) -> Mapping[str, Vectors]:
        """What is carried from the last group to the next; nothing as a rule."""

    def restore(self, state: Mapping[str, Vectors]) -> None:
        """Go on from such a state."""


class Stateless:
    """The sources whose sentences know nothing of one another."""

    def state(self) -> Mapping[str, Vectors]:
        return {}

    def restore(self, state: Mapping[str, Vectors]) -> None:
        """There is nothing to restore."""
