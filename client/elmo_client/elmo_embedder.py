"""AllenNLP 0.9's ElmoEmbedder, computed by a server.

    from elmo_client import ElmoEmbedder  # instead of: from allennlp.commands.elmo import ...

    elmo = ElmoEmbedder("http://localhost:8000")
    vectors = elmo.embed_sentence(["Hello", "world"])  # (3, 2, 2P)

It is stateless: the vectors of a sentence depend on that sentence alone. AllenNLP carried the LSTM
state from call to call. `elmo_serve.ElmoEmbedder` computes in this process, and can carry state.
`elmo embed --server URL` writes the files of AllenNLP's `embed_file`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Self

from elmo_client.client import Client
from elmo_client.results import Vectors


class ElmoEmbedder:
    """ELMo vectors of tokenised sentences, from a server.

    The vectors of a sentence of n tokens are (L + 1, n, 2P), float32, layers first.
    """

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

    def embed_sentence(self, sentence: Sequence[str]) -> Vectors:
        """Return the vectors of one sentence, a list of n tokens: (L + 1, n, 2P)."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Sequence[Sequence[str]]) -> list[Vectors]:
        """Return the vectors of some sentences, in their order."""
        return self._client.embed(batch)

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = 64
    ) -> Iterator[Vectors]:
        """Yield the vectors of any number of sentences. `batch_size` is chosen by the server."""
        return self._client.stream(sentences)

    def close(self) -> None:
        """Close the connections to the server."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
