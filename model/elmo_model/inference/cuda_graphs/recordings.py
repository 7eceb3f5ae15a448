"""The recordings that a network is read by, as long as they can be made."""

import logging
from collections.abc import Sequence

import torch
from torch import Tensor

from elmo_model.inference.cuda_graphs.reader import ChunkedReader, RecordingError
from elmo_model.state import State

_log = logging.getLogger(__name__)


class Recordings:
    """Those of one network; the first that cannot be made ends them all, with a warning."""

    def __init__(self) -> None:
        self._reader: ChunkedReader | None = None

    @property
    def are_used(self) -> bool:
        """Say whether `read` maps anything."""
        return self._reader is not None

    def use(self, reader: ChunkedReader | None) -> None:
        """Read by this one from now on, or not at all."""
        self._reader = reader

    def make(self) -> None:
        """Make all of them now, so that no batch waits for one and none lacks memory for it."""
        if self._reader is None:
            return
        try:
            with torch.inference_mode():
                self._reader.record()
        except RecordingError as error:
            self.stop(str(error))

    def stop(self, reason: str) -> None:
        """Use none any more, and say why."""
        self._reader = None
        _log.warning("CUDA graphs are not used, which is slower: %s", " ".join(reason.split()))

    def read(self, tokens: Tensor, lengths: Sequence[int], start: State) -> Tensor | None:
        """Map as `ChunkedReader.read`; None where there are none, and their memory is free then."""
        if self._reader is None:
            return None
        try:
            return self._reader.read(tokens, lengths, start)
        except RecordingError as error:
            self.stop(str(error))
        return None
