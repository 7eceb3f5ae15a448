"""The options of `elmo embed`, and the source of vectors that they name."""

# ruff: noqa: PLC0415 - with a server this process needs no torch, and without one no HTTP client

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elmo_model.errors import OptionError
from elmo_model.files.runtime import keep_freed_memory
from elmo_model.models.catalogue import BUILT_IN, canonical, published_model
from elmo_model.text.tokenizers import Tokenize, tokenizer
from elmo_model.word_vectors import WordVectors
from elmo_serve.files.connected import connected
from elmo_serve.files.inputs import INPUTS, InputFormat, Rules, Unknown, column_of, input_format
from elmo_serve.files.outputs import OUTPUTS, PARTS, allennlp, output_format
from elmo_serve.files.outputs.output_format import Layout, OutputFormat
from elmo_serve.files.outputs.proteins import LAYOUTS, seqvec_layout
from elmo_serve.files.text import Corpus
from elmo_serve.files.vectors import LengthSorted, Remote, Source, Stateful, served_model
from elmo_serve.models.download import Progress, unseen
from elmo_serve.output import Output, Pooling, select, with_word_vectors
from elmo_serve.workers.messages import ModelInfo

if TYPE_CHECKING:
    from elmo_serve.models.in_process import InProcess

BATCH_SIZE: Final = 64  # sentences; the default of `allennlp elmo`

PART_SENTENCES: Final = 2_000
"""Sentences of a part of a folder. A killed run loses the part that was being written."""

PROTEINS: Final = "name a --model of proteins, such as seqvec"

# Seconds that a request is repeated while a server that responded before is busy or restarts.
_PATIENCE_SECONDS = 600.0


@dataclass(frozen=True)
class EmbedOptions:
    """The options of one run, named as on the command line: values.

    `layers` is a selection, or None for that of a layout. `model` is a name or a path, and with a
    `server` the name of one of its models, or None for its first. `word_vectors` is a file of
    `elmo word-vectors`; with a server any text means its own. `input_format` and
    `output_format` None leave the choice to the names of the files. `tokenizer` None keeps the
    tokens of the input format, `model` is the tokenizer of the model. With `carry_state` batches of
    `batch_size` sentences carry their LSTM state on. With `protein` a record has one vector, the
    mean over its residues. `part_sentences` None is the usual number in a folder, and no parts for
    a file.
    """

    layers: str | int | None
    output_format: str | None = None
    input: str = "-"
    output: str = "-"
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
    keep_blank_lines: bool = False
    carry_state: bool = False
    batch_size: int | None = None
    forget_sentences: bool = False
    use_sentence_keys: bool = False
    part_sentences: int | None = None
    protein: bool = False
    upper: bool | None = None
    unknown: Unknown = "keep"
    split_char: str | None = None
    id: int | None = None
    force: bool = False

    @cached_property
    def corpus(self) -> Corpus:
        """INPUT, or the files below it."""
        return Corpus(Path(self.input), self.reader, self.keep_blank_lines)

    def reader(self, name: str) -> InputFormat:
        """Return the format of an input file of this name."""
        form = INPUTS["fasta" if self.is_fasta else self.input_format or input_format(name)]
        if form is INPUTS["conll"]:
            return column_of(self.column)
        return form if self.rules is None else self.rules.form

    @property
    def read_as(self) -> str:
        """The name of the format of INPUT; that of a folder may be `by name`."""
        if self.is_fasta:
            return "fasta"
        return self.input_format or ("by name" if self.to_folder else input_format(self.input))

    @property
    def is_fasta(self) -> bool:
        """Whether INPUT is FASTA, by --input-format, by a layout of proteins or by its name."""
        if self.input_format is not None or self.output_format in LAYOUTS:
            return self.input_format in {None, "fasta"}
        return input_format(self.input) == "fasta"

    @property
    def holds_fasta(self) -> bool:
        """Whether INPUT is FASTA, or a file of it has a name of FASTA that decides."""
        return self.is_fasta or (
            self.input_format is None and "fasta" in map(input_format, self.corpus.files)
        )

    @property
    def to_folder(self) -> bool:
        """Whether OUTPUT is a folder of parts."""
        has_parts = self.part_sentences is not None
        return has_parts or (Path(self.input).is_dir() and self.layout is None)

    @property
    def layout(self) -> str | None:
        """The layout of proteins of OUTPUT: that of seqvec for FASTA without a --format."""
        name = self.output_format
        if not self.is_fasta:
            return None
        if name in {None, "seqvec"}:
            by_ending = None if self.part_sentences is not None else seqvec_layout(self.output)
            return by_ending or name
        return name if name in LAYOUTS else None

    @property
    def format(self) -> str | None:
        """The name of the format of OUTPUT, or of its parts; None where nothing says it."""
        if self.to_folder:
            return self.output_format or PARTS
        return self.layout or self.output_format or output_format(self.output)

    @property
    def form(self) -> OutputFormat:
        """The format of OUTPUT, or of its parts."""
        assert self.format is not None, "`check` refuses it"
        if self.format != "allennlp":
            return OUTPUTS[self.format]
        return allennlp.variant(
            forget_sentences=self.forget_sentences, use_sentence_keys=self.use_sentence_keys
        )

    @cached_property
    def rules(self) -> Rules | None:
        """How a record of FASTA becomes a sentence; None for other input."""
        if not self.is_fasta:
            return None
        layout = self.form.layout or Layout()
        named: dict[str, Any] = {
            "upper": self.upper,
            "split_char": self.split_char,
            "field": self.id,
        }
        given = {name: value for name, value in named.items() if value is not None}
        return replace(layout.rules, unknown=self.unknown, **given)

    def identity(self, model: ModelInfo) -> dict[str, Any]:
        """Return what a run has in common with the one that it continues, besides its text."""
        words = model.word_vectors if self.word_vectors else None
        flags = ("forget_sentences", "use_sentence_keys", "column", "tokenizer", "normalize")
        return {
            "model": model.revision,
            "precision": model.precision,
            "layers": self._selection,
            "input format": self.read_as,
            "blank lines": self.keep_blank_lines,
            "batch size": self.carried_batch,
            "format": self.format,
            **{name: getattr(self, name) for name in flags},
            "word vectors": words.revision if words is not None else None,
            "records": None if self.rules is None else asdict(self.rules),
            "one vector a protein": self.protein,
            "part sentences": self.part_size,
        }

    @property
    def carried_batch(self) -> int | None:
        """Sentences in a batch that carries its state on; None where none does."""
        return (self.batch_size or BATCH_SIZE) if self.carry_state else None

    @property
    def part_size(self) -> int | None:
        """Sentences of a part in a folder of parts; None for one file."""
        return (self.part_sentences or PART_SENTENCES) if self.to_folder else None

    @property
    def _selection(self) -> str | int:
        if self.layers is not None:
            return self.layers
        return "sum" if self.protein or self.form.layout is None else self.form.layout.layers

    def selected(self, model: ModelInfo) -> Output:
        """Return the selection of vectors.

        Raises SelectionError for a layer that the model lacks, for word vectors that the server
        lacks, and for word vectors appended to several layers.
        """
        pooling: Pooling = "mean" if self.protein else "none"
        output = select(self._selection, model.layers, pooling=pooling, normalize=self.normalize)
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
    def open(self, progress: Progress = unseen) -> Iterator[Source]:
        """Open the server or the network; close it in the end.

        `progress` is as for `locate`. Raises ElmoError for a model that cannot be loaded, for a
        server, and for FASTA where the first model of a server reads English.
        """
        if self.server is None:
            network = self._network(progress)
            output = self.selected(network.info)
            batch = self.carried_batch
            yield Stateful(network, output, batch) if batch else LengthSorted(network, output)
            return
        with connected(
            self.server, self.api_key, self.model, patience_seconds=_PATIENCE_SECONDS
        ) as client:
            info = served_model(client)
            if self.is_fasta and self.model is None and not may_read_proteins(info.name):
                raise OptionError(
                    f"{self.input} holds FASTA, and {info.name} reads text: {PROTEINS}"
                )
            yield Remote(client, self._selection, self.selected(info))

    def _network(self, progress: Progress) -> InProcess:
        from elmo_serve.models.in_process import open_network

        assert self.model is not None, "a server alone has a first model"
        words = WordVectors.open(Path(self.word_vectors)) if self.word_vectors is not None else None
        network = open_network(
            self.model,
            progress=progress,
            device=self.device,
            precision=self.precision,
            owns_process=True,
            words=words,
        )
        keep_freed_memory()
        return network


def may_read_proteins(model: str | None) -> bool:
    """Tell whether a model is not known by name as one of text: a path may be one of proteins."""
    if model is None or canonical(model) in BUILT_IN:
        return False
    published = published_model(model)
    return published is None or not published.language
