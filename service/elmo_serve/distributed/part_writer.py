"""Writes the parts of a corpus, with one model that stays loaded."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from elmo_model import atomic_files
from elmo_model.tokenizers import Tokenize, tokenizer
from elmo_serve.distributed.corpus import Corpus, Part
from elmo_serve.distributed.located import located
from elmo_serve.distributed.manifest import FinishedPart
from elmo_serve.files.in_process import InProcess
from elmo_serve.files.inputs import INPUTS
from elmo_serve.files.outputs import OUTPUTS
from elmo_serve.files.outputs.output_format import Facts, OutputFormat
from elmo_serve.files.selection import selection
from elmo_serve.files.sentence import FileError, Sentence
from elmo_serve.files.sources.local import LengthSorted
from elmo_serve.model_cache import CacheSettings, cache_of_environment
from elmo_serve.workers.messages import ModelInfo

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True, slots=True)
class PartJob:
    """All that a machine needs to write parts: values, to be sent to it.

    `root` and `folder` are paths that every machine sees. `suffix` ends the names of the parts.
    `tokenizer` splits the text of each sentence; None keeps the tokens of the input format. `cache`
    is needed for a published model.
    """

    root: str
    folder: str
    cache: CacheSettings | None
    model: str
    layers: str | int
    output_format: str
    suffix: str
    input_format: str = "plain"
    tokenizer: str | None = None
    keep_blank: bool = False
    normalize: bool = False
    device: str = "auto"
    precision: str = "float32"

    @property
    def corpus(self) -> Corpus:
        """The files to read."""
        return Corpus(Path(self.root), INPUTS[self.input_format], self.keep_blank)

    @property
    def form(self) -> OutputFormat:
        """The format of the parts."""
        return OUTPUTS[self.output_format]

    def open(self) -> InProcess:
        """Load the model. Raises CheckpointError, DownloadError and ValueError, as `InProcess`."""
        return InProcess.open(
            located(self.model, lambda: self.cache or cache_of_environment()),
            device=self.device,
            precision=self.precision,
            owns_process=True,
        )


class PartWriter:
    """Embeds a part and writes it as a whole, or not at all."""

    def __init__(self, job: PartJob) -> None:
        self._job = job
        self._network = job.open()
        info = self._network.info
        self._output = selection(job.layers, info.layers, normalize=job.normalize)
        self._split = _split(job.tokenizer, info)

    def write(self, part: Part) -> FinishedPart:
        """Write one part, in place of an older file of its name.

        Sentences of similar length are computed together.

        Raises FileError for sentences that the format cannot hold, and OSError for a full disk.
        """
        job = self._job
        sentences = list(job.corpus.sentences(part, self._split))
        if len(sentences) != part.sentences:
            raise FileError(f"{part.file} changed while it was read; start again")
        check = job.form.check(self._output)
        for number, sentence in enumerate(sentences, part.first + 1):
            check(number, sentence)
        path = Path(job.folder) / part.name(job.suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_files.replacing(path) as temporary:
            facts = Facts(self._network.info, self._output, part.first)
            job.form.write(temporary, self._items(sentences), facts)
        tokens = sum(len(sentence.tokens) for sentence in sentences)
        name = part.name(job.suffix)
        return FinishedPart(name, part.sentences, tokens, path.stat().st_size)

    def attempt(self, part: Part) -> FinishedPart | str:
        """Write one part; return one line where it cannot be written, so that others are.

        A network that fails (a GPU without memory) raises RuntimeError.
        """
        name = part.name(self._job.suffix)
        try:
            return self.write(part)
        except FileError as error:
            return str(error)
        except OSError as error:
            return explained(error, name)
        except RuntimeError as error:
            return f"{name}: {' '.join(str(error).split())}"

    def _items(self, sentences: list[Sentence]) -> Iterator[tuple[Sentence, NDArray[Any]]]:
        source = LengthSorted(self._network, self._output)
        groups = source.groups((sentence.tokens for sentence in sentences), lambda _: None)
        arrays = (array for group in groups for array in group)
        return zip(sentences, arrays, strict=True)


def explained(error: OSError, path: str) -> str:
    """Return one line for a part that could not be written, with the way out of a full disk."""
    why = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in _FULL:
        return f"{path} cannot be written: {why}; make room and start the same command again"
    return f"{path} cannot be written: {why}"


def _split(name: str | None, model: ModelInfo) -> Tokenize | None:
    if name is None:
        return None
    return tokenizer(model.tokenizer if name == "model" else name, model.language)
