"""The options of `elmo embed` that decide the vectors and the files: which model, which formats."""

# ruff: noqa: PLC0415 - with a server this process needs no torch, and without one no HTTP client

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_model.files.runtime import keep_freed_memory
from elmo_model.text.tokenizers import Tokenize, tokenizer
from elmo_model.word_vectors import WordVectors
from elmo_serve.files.connected import connected
from elmo_serve.files.inputs import INPUTS, InputFormat, Rules, column_of, input_format
from elmo_serve.files.outputs import OUTPUTS, allennlp
from elmo_serve.files.outputs.output_format import OutputFormat
from elmo_serve.files.vectors import LengthSorted, Remote, Source, Stateful, served_model
from elmo_serve.output import Output, Pooling, select, with_word_vectors
from elmo_serve.workers.messages import ModelInfo

if TYPE_CHECKING:
    from elmo_serve.models.opening import InProcess

# Seconds that a request is repeated while a server that responded before is busy or restarts.
_PATIENCE_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class EmbedOptions:
    """The options of one run: values.

    `model` is a name or a path, and with a `server` the name of one of its models, or None for its
    first. `word_vectors` is a file of `elmo word-vectors`; with a server any text means its own.
    `input_format` None leaves the choice to the names of the files. `tokenizer` None keeps the
    tokens of the input format, `model` is the tokenizer of the model. `batch_size` is the number of
    sentences in a batch that carries its LSTM state on; None computes each sentence alone. `rules`
    read FASTA; with `protein` a record has one vector, the mean over its residues.
    """

    layers: str | int
    output_format: str
    model: str | None = None
    server: str | None = None
    api_key: str | None = field(default=None, repr=False)
    device: str = "auto"
    precision: str = "float32"
    word_vectors: str | None = None
    normalize: bool = False
    input_format: str | None = None
    column: int | None = None
    tokenizer: str | None = None
    keep_blank: bool = False
    batch_size: int | None = None
    forget_sentences: bool = False
    use_sentence_keys: bool = False
    rules: Rules | None = None
    protein: bool = False

    @property
    def form(self) -> OutputFormat:
        """The format of the output."""
        if self.output_format != "allennlp":
            return OUTPUTS[self.output_format]
        return allennlp.variant(
            forget_sentences=self.forget_sentences, use_sentence_keys=self.use_sentence_keys
        )

    def input(self, name: str) -> InputFormat:
        """Return the format of an input file of this name."""
        form = INPUTS[self.input_format or input_format(name)]
        if form is INPUTS["conll"] and self.column is not None:
            return column_of(self.column)
        return form if self.rules is None or form is not INPUTS["fasta"] else self.rules.form

    def identity(self, model: ModelInfo, input_format: str | None) -> dict[str, Any]:
        """Return the options that a run has in common with the one that it continues.

        Only what was asked for is named, so that a run of a release without an option continues.
        """
        form = self.output_format
        if form == "allennlp":
            names = ("forget_sentences", "use_sentence_keys")
            form = f"{form} { {name: getattr(self, name) for name in names} }"
        words = model.word_vectors if self.word_vectors else None
        asked = {
            "word vectors": words.revision if words is not None else None,
            "normalize": self.normalize,
            "column": self.column,
            "tokenizer": self.tokenizer,
            "records": None if self.rules is None else asdict(self.rules),
            "one vector a protein": self.protein,
        }
        return {
            "layers": self.layers,
            "input format": input_format,
            "blank lines": self.keep_blank,
            "batch size": self.batch_size,
            "format": form,
            **{name: value for name, value in asked.items() if value},
        }

    def output(self, model: ModelInfo) -> Output:
        """Return the selection of vectors.

        Raises SelectionError for a layer that the model lacks, for word vectors that the server
        lacks, and for word vectors appended to several layers.
        """
        pooling: Pooling = "mean" if self.protein else "none"
        output = select(self.layers, model.layers, pooling=pooling, normalize=self.normalize)
        if self.word_vectors is None:
            return output
        words = model.word_vectors
        return with_word_vectors(output, None if words is None else words.dimension)

    def split(self, model: ModelInfo) -> Tokenize | None:
        """Return the tokenizer that splits the text, None where it has tokens already."""
        if self.tokenizer is None:
            return None
        name = model.tokenizer if self.tokenizer == "model" else self.tokenizer
        return tokenizer(name, model.language)

    @contextmanager
    def open(self) -> Iterator[Source]:
        """Open the server or the network; close it in the end.

        Raises ElmoError for a model that cannot be loaded, and for a server.
        """
        if self.server is None:
            network = self.network()
            output = self.output(network.info)
            if self.batch_size is None:
                yield LengthSorted(network, output)
            else:
                yield Stateful(network, output, self.batch_size)
            return
        with connected(
            self.server, self.api_key, self.model, patience_seconds=_PATIENCE_SECONDS
        ) as client:
            yield Remote(client, self.layers, self.output(served_model(client)))

    def network(self) -> InProcess:
        """Load the model into this process. Raises ElmoError, as `open_network` does."""
        from elmo_serve.models.opening import open_network

        assert self.model is not None, "a server alone has a first model"
        words = WordVectors.open(Path(self.word_vectors)) if self.word_vectors is not None else None
        network = open_network(
            self.model,
            device=self.device,
            precision=self.precision,
            owns_process=True,
            words=words,
        )
        keep_freed_memory()
        return network
