"""ElmoEmbedder as AllenNLP 0.9 had it: the import line is what changes.

    from elmo_client import ElmoEmbedder  # from allennlp.commands.elmo import ...

    elmo = ElmoEmbedder("options.json", "weights.hdf5")  # in this process
    elmo = ElmoEmbedder("http://127.0.0.1:8000")         # a server computes
    vectors = elmo.embed_sentence(["Hello", "world"])    # (3, 2, 1024)

It is stateless: a sentence's vectors depend on that sentence alone. AllenNLP's carried the LSTM
state from call to call, so that the same sentence answered differently each time; `stateful=True`
does so again, in this process, for those who must match old vectors to the digit.
"""

# ruff: noqa: PLC0415 - torch is for those whose process computes, h5py for those who write files

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from elmo_client.client import Client
from elmo_client.errors import CannotSend

if TYPE_CHECKING:
    from elmo_serve.files.in_process import InProcess
    from elmo_serve.files.sources.source import Source

Vectors = NDArray[Any]

_BATCH_SIZE = 64
_ORIGINAL = "original"  # what AllenNLP fetched when it was told nothing


class ElmoEmbedder:
    """ELMo vectors of tokenised sentences; layers come first: (L + 1, n, 2P), float32."""

    def __init__(
        self,
        options_file: str | Path = _ORIGINAL,
        weight_file: str | Path | None = None,
        cuda_device: int = -1,
        *,
        api_key: str | None = None,
        stateful: bool = False,
    ) -> None:
        """Open a model, or point at a server.

        Args:
            options_file: the options of a published pair; or a model's name or path; or the URL of
                a server. The original model is fetched where nothing is said, as it always was.
            weight_file: the weights of the pair.
            cuda_device: number of the CUDA device; -1 for the CPU.
            api_key: the server's, if it asks for one.
            stateful: carry the LSTM state from call to call, row by row, as AllenNLP did.

        Raises CheckpointError where there is no model, DownloadError where it cannot be fetched,
        CannotSend for what does not go together.
        """
        source = str(options_file)
        self._backend: _Backend
        if source.startswith(("http://", "https://")):
            if weight_file is not None:
                raise CannotSend(
                    f"{source} and {weight_file}: a server has its own weights; to use files from "
                    "the web, download both first"
                )
            if stateful:
                raise CannotSend("a server keeps no state; stateful=True needs a model's files")
            self._backend = _Remote(Client(source, api_key=api_key))
        else:
            self._backend = _Local(_open(source, weight_file, cuda_device), stateful)

    def embed_sentence(self, sentence: Sequence[str]) -> Vectors:
        """Return the vectors of one sentence: (L + 1, n, 2P); (L + 1, 0, 2P) for an empty one."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Sequence[Sequence[str]]) -> list[Vectors]:
        """Return the vectors of some sentences, in their order."""
        return self._backend.embed(list(batch)) if len(batch) else []

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = _BATCH_SIZE
    ) -> Iterator[Vectors]:
        """Yield the vectors of any number of sentences, `batch_size` of them computed at a time."""
        rows = iter(sentences)
        while batch := list(islice(rows, batch_size)):
            yield from self.embed_batch(batch)

    def embed_file(
        self,
        input_file: Iterable[str],
        output_file_path: str | Path,
        output_format: str = "all",
        batch_size: int = _BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Write the vectors of a text's lines to HDF5, as `elmo embed` and `allennlp elmo` do.

        `output_format` is "all", "top" or "average". A file that exists is replaced. Raises
        FileError for blank lines and for what cannot be written.
        """
        from elmo_serve.files.inputs import plain
        from elmo_serve.files.outputs import allennlp
        from elmo_serve.files.run import Text, run
        from elmo_serve.files.selection import selection

        output = Path(output_file_path)
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
            text = Path(folder) / "input.txt"
            with text.open("w", encoding="utf-8") as file:
                file.writelines(f"{line.rstrip()}\n" for line in input_file)
            run(
                Text(text, plain.read),
                output,
                form,
                source,
                selection(output_format, source.info.layers),
                identity,
                force=True,
            )

    def close(self) -> None:
        """Close the connections to a server."""
        self._backend.close()


class _Backend(Protocol):
    """What computes."""

    def embed(self, batch: list[Sequence[str]]) -> list[Vectors]: ...

    def source(self, layers: str, batch_size: int) -> Source: ...

    def close(self) -> None: ...


class _Remote:
    def __init__(self, client: Client) -> None:
        self._client = client

    def embed(self, batch: list[Sequence[str]]) -> list[Vectors]:
        return self._client.embed(batch, layers="all")

    def source(self, layers: str, batch_size: int) -> Source:
        from elmo_serve.files.selection import selection
        from elmo_serve.files.sources.remote import Remote

        wanted = selection(layers, self._client.info()["layers"])
        return Remote(self._client, layers, wanted)

    def close(self) -> None:
        self._client.close()


class _Local:
    """The network, and the state of its last call where that is carried."""

    def __init__(self, network: InProcess, stateful: bool) -> None:
        self._network = network
        self._stateful = stateful
        self._state: Any = None

    def embed(self, batch: list[Sequence[str]]) -> list[Vectors]:
        from elmo_serve.files.selection import selection

        everything = selection("all", self._network.info.layers)
        if not self._stateful:
            return self._network.embed(batch, everything)
        arrays, self._state = self._network.carry(batch, everything, self._state)
        return arrays

    def source(self, layers: str, batch_size: int) -> Source:
        from elmo_serve.files.selection import selection
        from elmo_serve.files.sources.local import Carried, Sorted

        wanted = selection(layers, self._network.info.layers)
        if self._stateful:
            return Carried(self._network, wanted, batch_size)
        return Sorted(self._network, wanted)

    def close(self) -> None:
        """Nothing is held."""


def _open(model: str, weight_file: str | Path | None, cuda_device: int) -> InProcess:
    from elmo_model.pretrained import open_model
    from elmo_serve.files.in_process import InProcess

    device = f"cuda:{cuda_device}" if cuda_device >= 0 else "cpu"
    if weight_file is None:
        return InProcess.open(_located(model), device=device)
    with tempfile.TemporaryDirectory() as folder:
        # The two may lie anywhere and be called anything; a pair lies together.
        Path(folder, "options.json").symlink_to(Path(model).resolve())
        Path(folder, "weights.hdf5").symlink_to(Path(weight_file).resolve())
        return InProcess.open(open_model(folder), device=device)


def _located(model: str) -> str:
    """Return the path of a published model, fetched into the cache where it is not there yet."""
    from elmo_serve.commands.terminal import fetching
    from elmo_serve.model_cache import cache_settings, locate
    from elmo_serve.settings import from_strings, variable

    names = ("cache", "mirror", "offline")
    settings = from_strings({name: os.environ.get(variable(name)) for name in names})
    with fetching() as show:
        return locate(model, cache_settings(settings), show)
