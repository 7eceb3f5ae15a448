"""The options of `elmo embed`, their checks, and what they name."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from elmo_model.errors import OptionError
from elmo_model.models.catalogue import BUILT_IN, canonical, published_model
from elmo_model.text.tokenizers import Tokenize, tokenizer
from elmo_serve.files.folder import folder_of
from elmo_serve.files.inputs import (
    INPUTS,
    STDIN,
    InputFormat,
    begins_as_fasta,
    column_of,
    input_format,
)
from elmo_serve.files.outputs import OUTPUTS, PARTS, allennlp, is_stream, output_format
from elmo_serve.files.outputs.output_format import OutputFormat
from elmo_serve.files.text import Corpus
from elmo_serve.selection import NAMED, Output, Pooling, select
from elmo_serve.workers.messages import ModelInfo

Fault = tuple[bool, str]
"""Whether options do not fit, and the message for it."""

BATCH_SIZE: Final = 64  # sentences; the default of `allennlp elmo`

PART_SENTENCES: Final = 2_000
"""Sentences of a part of a folder. A killed run loses the part that was being written."""

ONE_SELECTION: Final = (
    f"one of {', '.join(f'--{name}' for name in NAMED)} and --layer is needed, and only one"
)

_PROTEINS: Final = "name a --model of proteins, such as seqvec"
_ENDINGS: Final = [ending for form in OUTPUTS.values() for ending in form.endings]
_POOLED: Final = ", ".join(name for name, form in OUTPUTS.items() if form.holds_pooled)


@dataclass(frozen=True)
class EmbedOptions:
    """The options of one run, named as on the command line: values.

    `layers` is a selection, or None for that of the layout seqvec. `model` is a name or a path, and
    with a `server` the name of one of its models, or None for its first. `input_format` and
    `output_format` None leave the choice to the names of the files. `tokenizer` None keeps the
    tokens of the input format, `model` is the tokenizer of the model. With `carry_state` batches of
    `batch_size` sentences carry their LSTM state on. `part_sentences` None is the usual number in a
    folder, and no folder of parts for a file.
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
    pooling: Pooling = "none"
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
    force: bool = False

    @cached_property
    def corpus(self) -> Corpus:
        """INPUT, or the files below it."""
        return Corpus(Path(self.input), self.reader, self.keep_blank_lines)

    def reader(self, name: str) -> InputFormat:
        """Return the format of an input file of this name."""
        form = INPUTS[self.input_format or input_format(name)]
        return column_of(self.column) if form is INPUTS["conll"] else form

    @property
    def read_as(self) -> str:
        """The name of the format of INPUT; that of a folder may be `by name`."""
        return self.input_format or ("by name" if self.to_folder else input_format(self.input))

    @property
    def holds_fasta(self) -> bool:
        """Whether INPUT is FASTA, or a file of it has a name of FASTA that decides."""
        if self.input_format is not None:
            return self.input_format == "fasta"
        return "fasta" in {input_format(self.input), *map(input_format, self.corpus.files)}

    @property
    def to_folder(self) -> bool:
        """Whether OUTPUT is a folder of parts."""
        return self.part_sentences is not None or Path(self.input).is_dir()

    @property
    def format(self) -> str | None:
        """The name of the format of OUTPUT, or of its parts; None where nothing says it."""
        if self.output_format is not None:
            return self.output_format
        if self.to_folder:
            return PARTS
        by_ending = output_format(self.output)
        return "seqvec" if by_ending == "allennlp" and self.read_as == "fasta" else by_ending

    @property
    def parts_folder(self) -> Path:
        """The folder of the parts of this run."""
        return Path(self.output) if self.to_folder else folder_of(Path(self.output))

    @property
    def form(self) -> OutputFormat:
        """The format of OUTPUT, or of its parts."""
        assert self.format is not None, "`check` refuses it"
        if self.format != "allennlp":
            return OUTPUTS[self.format]
        return allennlp.variant(
            forget_sentences=self.forget_sentences, use_sentence_keys=self.use_sentence_keys
        )

    def check(self, *, is_model_named: bool = True) -> None:
        """Raise OptionError for options that do not go together.

        `is_model_named` tells that the user has chosen the model for this run.
        """
        faults = self._folder_faults() if self.to_folder else self._file_faults()
        for is_wrong, message in [*self._faults(is_model_named), *faults, *self._without_effect()]:
            if is_wrong:
                raise OptionError(message)

    def _faults(self, is_model_named: bool) -> list[Fault]:
        is_plain = self.read_as == "plain" and not self.input_format
        is_known = is_model_named or bool(self.server) or may_read_proteins(self.model)
        return [
            (
                is_plain and begins_as_fasta(self.input),
                f"{self.input} begins with '>': name --input-format fasta, or plain for text",
            ),
            (self.holds_fasta and not is_known, self.no_proteins(self.model)),
            (self.layers is None and self.format != "seqvec", ONE_SELECTION),
        ]

    def _file_faults(self) -> list[Fault]:
        source, output, name = Path(self.input), Path(self.output), self.format
        cannot_stream = is_stream(self.output) and name is not None and not OUTPUTS[name].is_stream
        is_same = source.is_file() and output.exists() and source.samefile(output)
        return [
            (name is None, f"{output} ends in none of {', '.join(_ENDINGS)}: name its --format"),
            (cannot_stream, f"{name} cannot be written to {self.output}, which is no file"),
            (is_same, f"{output} is INPUT: the vectors would take the place of the text"),
        ]

    def _folder_faults(self) -> list[Fault]:
        output = Path(self.output)
        is_there = output.exists()
        by_ending = output_format(self.output)
        is_inside = output.resolve().is_relative_to(Path(self.input).resolve())
        return [
            (
                self.input == STDIN,
                "the INPUT of parts is a file or a folder, not standard input",
            ),
            (
                self.output == "-" or (is_there and not output.is_dir()),
                f"the OUTPUT of parts is a folder, and {output} is none",
            ),
            (
                by_ending not in (None, self.format) and not is_there,
                f"{output} ends like a file, and the OUTPUT of parts is a folder",
            ),
            (is_inside, f"OUTPUT lies in INPUT, {self.input}: its parts would be read as text"),
        ]

    def _without_effect(self) -> list[Fault]:
        """Return a fault for each option that would have no effect beside the others."""
        read_as, form = self.read_as, self.format
        pools = form is not None and OUTPUTS[form].holds_pooled
        table = [
            (self.server, ("device", "precision"), "has no effect with --server"),
            (self.server, ("carry_state",), "needs the model here: a server keeps no state"),
            (not self.carry_state, ("batch_size",), "has no effect without --carry-state"),
            (self.to_folder, ("carry_state",), "goes with one file, not with parts in any order"),
            (self.carry_state, ("pooling",), "does not go with --carry-state"),
            (not pools, ("pooling",), f"goes with {_POOLED}, not {form}"),
            (
                form != "allennlp",
                ("forget_sentences", "use_sentence_keys"),
                f"belongs to allennlp, not {form}",
            ),
            (read_as not in ("conll", "by name"), ("column",), f"goes with conll, not {read_as}"),
            (
                read_as not in ("plain", "by name"),
                ("tokenizer",),
                f"splits plain text, not {read_as}",
            ),
        ]
        usual = {each.name: each.default for each in fields(self)}
        return [
            (
                bool(is_refused) and getattr(self, name) != usual[name],
                f"--{name.replace('_', '-')} {why}",
            )
            for is_refused, names, why in table
            for name in names
        ]

    def no_proteins(self, model: str | None) -> str:
        """Return the message for FASTA and a model that reads text."""
        return f"{self.input} holds FASTA, and {model} reads text: {_PROTEINS}"

    def identity(self, model: ModelInfo) -> dict[str, Any]:
        """Return the options that must be equal for a run to continue another one."""
        flags = ("forget_sentences", "use_sentence_keys", "column", "tokenizer", "normalize")
        return {
            "model": model.revision,
            "precision": model.precision,
            "layers": self.selection,
            "input format": self.read_as,
            "blank lines": self.keep_blank_lines,
            "batch size": self.carried_batch,
            "format": self.format,
            **{name: getattr(self, name) for name in flags},
            "pooling": self.pooling,
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
    def selection(self) -> str | int:
        """The layers, by name or number."""
        return "sum" if self.layers is None else self.layers  # that of SeqVec's own program

    def selected(self, model: ModelInfo) -> Output:
        """Return the selection of vectors.

        Raises SelectionError for a layer that the model lacks.
        """
        return select(self.selection, model.layers, pooling=self.pooling, normalize=self.normalize)

    def split(self, model: ModelInfo) -> Tokenize | None:
        """Return the tokenizer that splits the text, None where it has tokens already."""
        if self.tokenizer is None:
            return None
        name = model.tokenizer if self.tokenizer == "model" else self.tokenizer
        return tokenizer(name, model.language)


def may_read_proteins(model: str | None) -> bool:
    """Tell whether a model is not known by name as one of text: a path may be one of proteins."""
    if model is None or canonical(model) in BUILT_IN:
        return False
    published = published_model(model)
    return published is None or not published.language
