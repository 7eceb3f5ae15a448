"""AllenNLP 0.9's ElmoEmbedder, computed by a server.

    from elmo_client import ElmoEmbedder  # instead of: from allennlp.commands.elmo import ...

    elmo = ElmoEmbedder("http://localhost:8000")
    vectors = elmo.embed_sentence(["Hello", "world"])  # (3, 2, 2P)

It is stateless: the vectors of a sentence depend on that sentence alone. AllenNLP carried the LSTM
state from call to call. `elmo_serve.ElmoEmbedder` computes in this process, and can carry state.
"""

# ruff: noqa: PLC0415 - only embed_file needs h5py, an optional dependency

import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Self

from elmo_client.client import Client
from elmo_client.errors import CannotSend, shown
from elmo_client.results import EmbeddedText, Vectors
from elmo_client.selection import LayerName
from elmo_client.transport.requests import lines_of

OutputFormat = LayerName

BATCH_SIZE = 64
"""AllenNLP's default number of sentences in a batch."""


class SentenceEmbedder(ABC):
    """The methods of AllenNLP's class that do not depend on where the vectors are computed.

    The vectors of a sentence of n tokens are (L + 1, n, 2P), float32, layers first.
    """

    def embed_sentence(self, sentence: Sequence[str]) -> Vectors:
        """Return the vectors of one sentence, a list of n tokens: (L + 1, n, 2P)."""
        return self.embed_batch([sentence])[0]

    @abstractmethod
    def embed_batch(self, batch: Sequence[Sequence[str]]) -> list[Vectors]:
        """Return the vectors of some sentences, in their order."""

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

    @abstractmethod
    def embed_texts(self, texts: Sequence[str], tokenizer: str | None = None) -> list[EmbeddedText]:
        """Split some texts into tokens; return these with their offsets and vectors.

        Raises CannotSend for a text that is no string, or that the tokenizer cannot split.
        """

    @abstractmethod
    def close(self) -> None:
        """Free the connections or the model."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ElmoEmbedder(SentenceEmbedder):
    """ELMo vectors of tokenised sentences, from a server."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        model: str | None = None,
    ) -> None:
        """Connect to a server.

        Args:
            url: the server's address, such as "http://localhost:8000".
            api_key: one of the server's keys, if it requires one.
            model: one of the server's models; None for the first one.

        Raises CannotSend for a `url` that is not an address, Unreachable if no server responds
        within 5 seconds.
        """
        self._client = Client(url, api_key=api_key, model=model)
        try:
            self._client.info()
        except BaseException:
            self._client.close()
            raise

    def embed_batch(self, batch: Sequence[Sequence[str]]) -> list[Vectors]:
        return self._client.embed(batch)

    def embed_texts(self, texts: Sequence[str], tokenizer: str | None = None) -> list[EmbeddedText]:
        return self._client.embed_text(texts, tokenizer=tokenizer)

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = BATCH_SIZE
    ) -> Iterator[Vectors]:
        """Yield the vectors of any number of sentences. `batch_size` is chosen by the server."""
        return self._client.stream(sentences)

    def embed_file(
        self,
        input_file: Iterable[str],
        output_file_path: str | Path,
        output_format: OutputFormat = "all",
        batch_size: int = BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Write the vectors of lines of text to HDF5, in the layout of `allennlp elmo`.

        Tokens stand between white space. The file appears when it is complete, and replaces an
        older one. `batch_size` is chosen by the server. Raises CannotSend for the path of an input,
        for blank lines, and for lines that cannot be the keys of one file.
        """
        lines = [line.strip() for line in lines_of(input_file)]
        output = Path(output_file_path)
        if blank := [str(number) for number, line in enumerate(lines, 1) if not line]:
            raise CannotSend(f"there are no tokens in these lines: {', '.join(blank[:10])}")
        if use_sentence_keys:
            check = key_check()
            for number, line in enumerate(lines, 1):
                check(line, f"line {number}, {shown(line)}, ")
        arrays = self._client.stream(map(str.split, lines), layers=output_format)
        temporary = output.with_name(f".{output.name}.{secrets.token_hex(4)}.tmp")
        try:
            _write(temporary, zip(lines, arrays, strict=True), forget_sentences, use_sentence_keys)
            temporary.replace(output)
        finally:
            temporary.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the connections to the server."""
        self._client.close()


def key_check() -> Callable[[str, str], None]:
    """Return a check of texts, which raises CannotSend for one that HDF5 cannot have as a key.

    The check is called with each text, and with its place for the error. It keeps a hash for each
    text and for each group, not the texts.
    """
    datasets: set[int] = set()
    groups: set[int] = set()

    def check(text: str, place: str) -> None:
        parts = [part for part in text.split("/") if part not in ("", ".")]
        key = hash(tuple(parts))
        above = {hash(tuple(parts[:depth])) for depth in range(1, len(parts))}
        if not parts or "\0" in text or key in datasets | groups or above & datasets:
            raise CannotSend(
                f"{place}cannot be a key in HDF5: it is empty, or a line before it is the same or "
                "a group of it, which a slash makes; expected no sentence keys"
            )
        datasets.add(key)
        groups.update(above)

    return check


def _write(
    path: Path, items: Iterable[tuple[str, Vectors]], forget_sentences: bool, use_keys: bool
) -> None:
    try:
        import h5py
    except ImportError as error:
        raise CannotSend("embed_file needs h5py: pip install 'elmo-client[hdf5]'") from error
    index: dict[str, Any] = {}
    with h5py.File(path, "x") as file:
        for number, (line, vectors) in enumerate(items):
            file.create_dataset(line if use_keys else str(number), data=vectors)
            index[line] = str(number)
        if not (forget_sentences or use_keys):
            text = file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
            text[0] = json.dumps(index)
