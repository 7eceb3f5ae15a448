"""The interface of a source of vectors, wherever it computes them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from elmo_serve.workers.messages import ModelInfo

Vectors = NDArray[Any]
Tokens = Sequence[str]
OnComputed = Callable[[int], None]
"""Called with the number of tokens computed since the last call."""


class Source(Protocol):
    """Maps sentences to vectors, in order.

    The arrays come in groups of consecutive sentences. Between two groups `state` is all that
    another process needs to continue.
    """

    @property
    def info(self) -> ModelInfo: ...

    def groups(
        self, sentences: Iterable[Tokens], on_computed: OnComputed
    ) -> Iterator[list[Vectors]]:
        """Yield the vectors of all sentences, group by group."""

    def state(self) -> Mapping[str, Vectors]:
        """Return the state between the last group and the next; usually empty."""

    def restore(self, state: Mapping[str, Vectors]) -> None:
        """Continue from such a state."""


class Stateless:
    """Base class of sources whose sentences do not depend on each other."""

    def state(self) -> Mapping[str, Vectors]:
        """Return nothing."""
        return {}

    def restore(self, state: Mapping[str, Vectors]) -> None:
        """Do nothing."""
