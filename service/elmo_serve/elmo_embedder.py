"""AllenNLP 0.9's ElmoEmbedder: in this process, or over HTTP.

    from elmo_serve import ElmoEmbedder  # instead of: from allennlp.commands.elmo import ...

    elmo = ElmoEmbedder("options.json", "weights.hdf5")  # in this process
    elmo = ElmoEmbedder("http://localhost:8000")         # computed by a server
    vectors = elmo.embed_sentence(["Hello", "world"])    # (3, 2, 2P)

It is stateless: the vectors of a sentence depend on that sentence alone. AllenNLP carried the LSTM
state from call to call, so that the same sentence got other vectors each time. `stateful=True` does
the same, in this process, to reproduce vectors that AllenNLP computed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_client import CannotSend
from elmo_client import ElmoEmbedder as RemoteEmbedder
from elmo_client.elmo_embedder import BATCH_SIZE, OutputFormat, SentenceEmbedder
from elmo_client.results import EmbeddedText, Vectors
from elmo_client.transport.requests import (
    check_sentence,
    check_sentences,
    check_text,
    check_texts,
    lines_of,
)
from elmo_client.transport.responses import warn
from elmo_model.text.tokenizers import TokenizeError
from elmo_serve.files.outputs import allennlp
from elmo_serve.files.run import EmbedRun
from elmo_serve.files.text import Text
from elmo_serve.files.vectors import LengthSorted, Remote, Stateful
from elmo_serve.output import select
from elmo_serve.token_warnings import TokenLimit, TokenWarnings

if TYPE_CHECKING:
    from torch import Tensor

    from elmo_serve.files.vectors import Source
    from elmo_serve.models.in_process import InProcess

_ORIGINAL = "original"  # the model that AllenNLP fetched by default


class ElmoEmbedder(SentenceEmbedder):
    """ELMo vectors of tokenised sentences: (L + 1, n, 2P) for n tokens, float32."""

    def __init__(
        self,
        options_file: str | Path = _ORIGINAL,
        weight_file: str | Path | None = None,
        cuda_device: int = -1,
        *,
        api_key: str | None = None,
        model: str | None = None,
        stateful: bool = False,
    ) -> None:
        """Open a model, or connect to a server.

        Args:
            options_file: the options file of a published pair; or the name or path of a model; or
                the URL of a server. The default is the original model, fetched at its first use.
            weight_file: the weights of the pair.
            cuda_device: number of the CUDA device; -1 for the CPU.
            api_key: one of the server's keys, if it requires one.
            model: one of the server's models; None for the first one.
            stateful: carry the LSTM state from call to call, row by row, as AllenNLP did.

        Raises CheckpointError for files that are missing or damaged, DownloadError for a model
        that cannot be fetched, CannotSend for arguments that exclude each other, Unreachable if no
        server responds within 5 seconds.
        """
        source = str(options_file)
        self._device = "cpu"
        self._backend: _Remote | _InProcess
        if not source.startswith(("http://", "https://")):
            if model is not None:
                raise CannotSend(f"model={model!r} chooses a model of a server; {source} is none")
            self._device = f"cuda:{cuda_device}" if cuda_device >= 0 else "cpu"
            self._backend = _InProcess(_open(source, weight_file, self._device), stateful)
            return
        if weight_file is not None or stateful:
            raise CannotSend(
                f"{source}: a server has its own weights and keeps no state; expected neither "
                "weight_file nor stateful=True"
            )
        self._backend = _Remote(source, api_key=api_key, model=model)

    def embed_batch(self, batch: Sequence[Sequence[str]]) -> list[Vectors]:
        """Return the vectors of some sentences, in their order."""
        check_sentences(batch)
        sentences = list(batch)
        for number, sentence in enumerate(sentences):
            check_sentence(sentence, f"sentence {number}")
        return self._backend.embed_batch(sentences) if sentences else []

    def batch_to_embeddings(self, batch: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Return the vectors of some sentences, padded with zeros, as AllenNLP 0.9 did.

        The vectors are (batch, L + 1, longest, 2P), the mask is (batch, longest), int64; both lie
        on the device of `cuda_device`.
        """
        import torch  # noqa: PLC0415 - heavy
        from torch.nn.utils.rnn import pad_sequence  # noqa: PLC0415

        arrays = self.embed_batch(batch)
        if not arrays:
            raise CannotSend("there is no sentence, expected one or more")
        vectors = pad_sequence([torch.from_numpy(each).transpose(0, 1) for each in arrays], True)
        longest = torch.tensor([each.shape[1] for each in arrays])[:, None]
        mask = (torch.arange(vectors.shape[1]) < longest).long()
        return vectors.transpose(1, 2).contiguous().to(self._device), mask.to(self._device)

    def embed_texts(self, texts: Sequence[str], tokenizer: str | None = None) -> list[EmbeddedText]:
        check_texts(texts)
        every = [check_text(text, f"text {number}") for number, text in enumerate(texts)]
        return self._backend.embed_texts(every, tokenizer)

    def embed_file(
        self,
        input_file: Iterable[str],
        output_file_path: str | Path,
        output_format: OutputFormat = "all",
        batch_size: int = BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Write the vectors of lines of text to HDF5, as `elmo embed` and `allennlp elmo` do.

        A file that exists is replaced. Raises CannotSend for the path of an input, FileError for
        blank lines and for an output that cannot be written.
        """
        lines = lines_of(input_file)
        form = allennlp.variant(
            forget_sentences=forget_sentences, use_sentence_keys=use_sentence_keys
        )
        source = self._backend.source(output_format, batch_size)
        identity = {
            "layers": output_format,
            "state": type(source).__name__,
            "batch size": batch_size,
        }
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "input.txt"
            with path.open("w", encoding="utf-8") as file:
                file.writelines(f"{line.rstrip()}\n" for line in lines)
            text = Text(path, "input_file")
            EmbedRun(text, form, source).to_file(Path(output_file_path), identity, force=True)

    def close(self) -> None:
        """Close the connections to a server."""
        self._backend.close()


def warn_of_first(sentences: Iterable[Sequence[str]], limit: TokenLimit | None) -> None:
    """Warn of the first odd token of some sentences, as `Client` does."""
    found = TokenWarnings()
    for number, tokens in enumerate(sentences):
        found.check(number, tokens, limit)
    for first in found.listed[:1]:
        warn(f"sentence {first.sentence}: {first.detail}")


class _Remote(RemoteEmbedder):
    """A server."""

    def source(self, layers: OutputFormat, batch_size: int) -> Source:
        """Return the source of the vectors of a file; the server chooses the batches."""
        return Remote(self._client, layers, select(layers, self._client.info()["layers"]))


class _InProcess:
    """A network in this process, and the state after its last call if `stateful`."""

    def __init__(self, network: InProcess, stateful: bool) -> None:
        self._network = network
        self._stateful = stateful
        self._state: Any = None

    def embed_batch(self, batch: Sequence[Sequence[str]]) -> list[Vectors]:
        everything = select("all", self._network.info.layers)
        warn_of_first(batch, self._network.info.token_limit)
        if not self._stateful or (len(batch) == 1 and not batch[0]):
            # AllenNLP did not run the network for one empty sentence, so its state stayed.
            return self._network.embed(batch, everything)
        arrays, self._state = self._network.carry(batch, everything, self._state)
        return arrays

    def embed_texts(self, texts: Sequence[str], tokenizer: str | None) -> list[EmbeddedText]:
        try:
            split = self._network.tokenizer(tokenizer)
            found = [split(text) for text in texts]
        except TokenizeError as error:
            raise CannotSend(str(error)) from error
        arrays = self.embed_batch([each.tokens for each in found]) if found else []
        return [
            EmbeddedText(text, each.tokens, each.offsets, array)
            for text, each, array in zip(texts, found, arrays, strict=True)
        ]

    def source(self, layers: OutputFormat, batch_size: int) -> Source:
        wanted = select(layers, self._network.info.layers)
        if self._stateful:
            return Stateful(self._network, wanted, batch_size)
        return LengthSorted(self._network, wanted)

    def close(self) -> None:
        """Do nothing: the network is freed with this object."""


def _open(model: str, weight_file: str | Path | None, device: str) -> InProcess:
    # torch
    from elmo_model.checkpoints import load_pair  # noqa: PLC0415
    from elmo_serve.models.in_process import open_network  # noqa: PLC0415

    if weight_file is not None:
        return open_network(load_pair(model, weight_file), device=device)
    return open_network(model, device=device)
