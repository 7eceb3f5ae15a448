"""AllenNLP 0.9's ElmoEmbedder, computed in this process.

    from elmo_serve import ElmoEmbedder  # instead of: from allennlp.commands.elmo import ...

    elmo = ElmoEmbedder("options.json", "weights.hdf5")
    vectors = elmo.embed_sentence(["Hello", "world"])    # (3, 2, 2P)

It is stateless: the vectors of a sentence depend on that sentence alone. AllenNLP carried the LSTM
state from call to call, so that the same sentence got other vectors each time. `stateful=True` does
the same, to reproduce vectors that AllenNLP computed. `elmo_client.ElmoEmbedder` takes the vectors
of a server.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from elmo_client import CannotSend
from elmo_client.batches import (
    check_sentence,
    check_sentences,
    check_several,
    check_text,
    check_texts,
)
from elmo_client.results import EmbeddedText, Vectors
from elmo_client.selection import LayerName
from elmo_model.checkpoints import CheckpointError, load_pair
from elmo_model.errors import shown
from elmo_model.models.catalogue import is_address, not_published, published_pair
from elmo_model.models.opening import open_published_pair
from elmo_model.text.tokenizers import TokenizeError
from elmo_serve.files.outputs import allennlp
from elmo_serve.files.run import EmbedRun
from elmo_serve.files.text import Text
from elmo_serve.files.vectors import LengthSorted, Stateful
from elmo_serve.models.download import cache_of_environment, fetch, unseen
from elmo_serve.models.in_process import InProcess, open_network
from elmo_serve.selection import select

BATCH_SIZE = 64
"""AllenNLP's default number of sentences in a batch."""

_ORIGINAL = "original"  # the model that AllenNLP fetched by default


class ElmoEmbedder:
    """ELMo vectors of tokenised sentences: (L + 1, n, 2P) for n tokens, float32."""

    def __init__(
        self,
        options_file: str | Path = _ORIGINAL,
        weight_file: str | Path | None = None,
        cuda_device: int = -1,
        *,
        stateful: bool = False,
    ) -> None:
        """Open a model.

        Args:
            options_file: the options file of a published pair; or the name or path of a model. The
                default is the original model, fetched at its first use. Both URLs of a published
                model name its pair, which is fetched too.
            weight_file: the weights of the pair.
            cuda_device: number of the CUDA device; -1 for the CPU.
            stateful: carry the LSTM state from call to call, row by row, as AllenNLP did.

        Raises CheckpointError for files that are missing or damaged, DownloadError for a model
        that cannot be fetched, CannotSend for the URL of a server.
        """
        source = str(options_file)
        if is_address(source) and weight_file is None:
            raise CannotSend(
                f"{source} is a server; expected the path or name of a model: "
                "elmo_client.ElmoEmbedder takes the vectors of a server"
            )
        self._device = f"cuda:{cuda_device}" if cuda_device >= 0 else "cpu"
        self._network = _open(source, weight_file, self._device)
        self._stateful = stateful
        self._state: Any = None

    def embed_sentence(self, sentence: Sequence[str]) -> Vectors:
        """Return the vectors of one sentence, a list of n tokens: (L + 1, n, 2P)."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Sequence[Sequence[str]]) -> list[Vectors]:
        """Return the vectors of some sentences, in their order."""
        check_sentences(batch)
        sentences = list(batch)
        for number, sentence in enumerate(sentences):
            check_sentence(sentence, f"sentence {number}")
        if not sentences:
            return []
        everything = select("all", self._network.info.layers)
        if not self._stateful or sentences == [[]]:
            # AllenNLP did not run the network for one empty sentence, so its state stayed.
            return self._network.embed(sentences, everything)
        arrays, self._state = self._network.carry(sentences, everything, self._state)
        return arrays

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = BATCH_SIZE
    ) -> Iterator[Vectors]:
        """Yield the vectors of any number of sentences, `batch_size` of them computed at a time."""
        if batch_size < 1:
            raise CannotSend(f"batch_size is {batch_size}; expected at least 1")
        rows = iter(sentences)
        while batch := list(islice(rows, batch_size)):
            yield from self.embed_batch(batch)

    def embed_text(self, text: str, tokenizer: str | None = None) -> EmbeddedText:
        """Split a text into tokens; return them with their offsets and vectors (L + 1, n, 2P).

        `tokenizer` is "ptb", "moses", "whitespace" or "characters"; None for that of the model.
        """
        return self.embed_texts([text], tokenizer)[0]

    def embed_texts(self, texts: Sequence[str], tokenizer: str | None = None) -> list[EmbeddedText]:
        """Split some texts into tokens; return these with their offsets and vectors.

        Raises CannotSend for a text that is no string, or that the tokenizer cannot split.
        """
        check_texts(texts)
        every = [check_text(text, f"text {number}") for number, text in enumerate(texts)]
        try:
            split = self._network.tokenizer(tokenizer)
            found = [split(text) for text in every]
        except TokenizeError as error:
            raise CannotSend(str(error)) from error
        arrays = self.embed_batch([each.tokens for each in found])
        return [
            EmbeddedText(text, each.tokens, each.offsets, array)
            for text, each, array in zip(every, found, arrays, strict=True)
        ]

    def batch_to_embeddings(self, batch: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Return the vectors of some sentences, padded with zeros, as AllenNLP 0.9 did.

        The vectors are (batch, L + 1, longest, 2P), the mask is (batch, longest), int64; both lie
        on the device of `cuda_device`.
        """
        arrays = self.embed_batch(batch)
        if not arrays:
            raise CannotSend("there is no sentence, expected one or more")
        vectors = pad_sequence([torch.from_numpy(each).transpose(0, 1) for each in arrays], True)
        longest = torch.tensor([each.shape[1] for each in arrays])[:, None]
        mask = (torch.arange(vectors.shape[1]) < longest).long()
        return vectors.transpose(1, 2).contiguous().to(self._device), mask.to(self._device)

    def embed_file(
        self,
        input_file: Iterable[str],
        output_file_path: str | Path,
        output_format: LayerName = "all",
        batch_size: int = BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Write the vectors of lines of text to HDF5, as `elmo embed` and `allennlp elmo` do.

        A file that exists is replaced. Raises CannotSend for the path of an input, FileError for
        blank lines and for an output that cannot be written.
        """
        check_several(
            input_file, "input_file", "an open file, such as open(path), or a list of lines"
        )
        lines = [_line(line, f"line {number}") for number, line in enumerate(input_file, 1)]
        form = allennlp.variant(
            forget_sentences=forget_sentences, use_sentence_keys=use_sentence_keys
        )
        wanted = select(output_format, self._network.info.layers)
        source = (
            Stateful(self._network, wanted, batch_size)
            if self._stateful
            else LengthSorted(self._network, wanted)
        )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "input.txt"
            with path.open("w", encoding="utf-8") as file:
                file.writelines(f"{line.rstrip()}\n" for line in lines)
            text = Text(path, "input_file")
            EmbedRun(form, source).to_whole(text, Path(output_file_path))


def _line(line: str, called: str) -> str:
    if "\n" in check_text(line, called)[:-1]:
        raise CannotSend(f"{called} is {shown(line)}; expected one line")
    return line


def _open(model: str, weight_file: str | Path | None, device: str) -> InProcess:
    if is_address(model) or is_address(weight_file):
        pair = published_pair(model, str(weight_file))
        if pair is None:
            raise CheckpointError(not_published(model, weight_file))
        with unseen() as on_progress:
            folder = fetch(pair[0], cache_of_environment(), on_progress)
        return open_network(open_published_pair(folder, *pair), device=device)
    if weight_file is not None:
        return open_network(load_pair(model, weight_file), device=device)
    return open_network(model, device=device)
