"""The command `elmo embed`: its options, and what it refuses before anything is opened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final

import click

from elmo_serve.commands.foreign_options import foreign_option
from elmo_serve.commands.options import (
    DEFAULT_MODEL,
    MODEL_OR_SERVERS,
    WITH_SERVER,
    api_key_option,
    device_option,
    is_given,
    model_option,
    precision_option,
    refuse_given,
    server_option,
    tokenizer_option,
)
from elmo_serve.commands.terminal import fail
from elmo_serve.files.inputs import INPUTS, UNKNOWN, Unknown, input_format
from elmo_serve.files.outputs import OUTPUTS, PARTS, output_format
from elmo_serve.files.outputs.proteins import LAYOUTS, seqvec_layout
from elmo_serve.files.proteins import begins_as_fasta
from elmo_serve.files.text import Corpus
from elmo_serve.output import NAMED

BATCH_SIZE: Final = 64  # sentences; the default of `allennlp elmo`

_RECORD_OPTIONS: Final = ("protein", "upper", "unknown", "split_char", "id")
_PAIR: Final = "--model PATH takes the options file, with the weights in its folder, or the folder"
_LAYOUT: Final = "name a --layout, such as seqvec"
_LOOKED_INTO: Final = 100
"""Files of a folder that are opened to see whether they are FASTA; more delay a run on NFS."""
_GO_WITH: Final = {"api_key": "server", "batch_size": "carry_state"}


@dataclass(frozen=True)
class Options:
    """The command line as click has read it."""

    input: str
    output: str
    model: str
    all: bool
    top: bool
    average: bool
    sum: bool
    concat: bool
    layer: int | None
    normalize: bool
    word_vectors: str | None
    server: str | None
    api_key: str | None
    input_format: str | None
    column: int | None
    tokenizer: str | None
    output_format: str | None
    forget_sentences: bool
    use_sentence_keys: bool
    keep_blank_lines: bool
    carry_state: bool
    batch_size: int | None
    device: str
    precision: str
    force: bool
    part_sentences: int | None
    protein: bool
    upper: bool | None
    unknown: Unknown
    split_char: str | None
    id: int | None

    @property
    def to_folder(self) -> bool:
        """Whether OUTPUT is a folder of parts."""
        return self.has_parts or (Path(self.input).is_dir() and self.layout is None)

    @property
    def has_parts(self) -> bool:
        """Whether the command line asks for parts."""
        return self.part_sentences is not None

    @property
    def is_fasta(self) -> bool:
        """Whether INPUT is FASTA, by --input-format, by a layout of proteins or by its name."""
        if self.input_format is not None or self.output_format in LAYOUTS:
            return self.input_format in {None, "fasta"}
        return input_format(self.input) == "fasta"

    @property
    def layout(self) -> str | None:
        """The layout of proteins of OUTPUT: that of seqvec for FASTA without a --format."""
        if not self.is_fasta:
            return None
        if self.output_format in {None, "seqvec"}:
            by_ending = None if self.has_parts else seqvec_layout(self.output)
            return by_ending or self.output_format
        return self.output_format if self.output_format in LAYOUTS else None

    @property
    def english_fault(self) -> str:
        """The message for FASTA where no model is named."""
        wanted = "name a --model of proteins, such as seqvec"
        subject = f"{self.input} {'is' if self.is_fasta else 'holds'} FASTA"
        if self.output_format in LAYOUTS and input_format(self.input) != "fasta":
            subject = f"{self.output_format} is a layout of proteins"
        return f"{subject}, and {DEFAULT_MODEL} reads English: {wanted}"

    @cached_property
    def corpus(self) -> Corpus:
        """INPUT, or the files below it."""
        return Corpus(Path(self.input))

    @property
    def holds_fasta(self) -> bool:
        """Whether INPUT, or a file of it, has a name of FASTA."""
        return "fasta" in map(input_format, self.corpus.files)

    @property
    def carried_batch(self) -> int | None:
        """Sentences in a batch that carries its state on; None where none does."""
        return (self.batch_size or BATCH_SIZE) if self.carry_state else None

    @property
    def layers(self) -> list[str | int]:
        """The selections of layers; there should be one."""
        numbers = [] if self.layer is None else [self.layer]
        return [*(name for name in NAMED if getattr(self, name)), *numbers]


def _layer(_context: click.Context, _option: click.Parameter, value: int | None) -> int | None:
    if value is not None and value < 0:
        fail(
            f"--layer {value}: layers count from 0; the mean of all is --average, all --all", code=2
        )
    return value


@click.command()
@click.argument("input", type=click.Path(exists=True, allow_dash=True))
@click.argument("output", type=click.Path(allow_dash=True))
@click.option("--all", is_flag=True, help="All layers of each token.")
@click.option("--top", is_flag=True, help="The top layer.")
@click.option("--average", is_flag=True, help="The mean of all layers.")
@click.option("--sum", is_flag=True, help="The sum of all layers.")
@click.option("--concat", is_flag=True, help="All layers of a token joined to one vector.")
@click.option("--layer", type=int, callback=_layer, metavar="K", help="Layer K; 0: token layer.")
@click.option("--normalize", is_flag=True, help="Scale every vector to length 1.")
@click.option(
    "--word-vectors",
    metavar="FILE",
    help="Append the static word vectors of FILE; with --server `append`: those of the server.",
)
@model_option(MODEL_OR_SERVERS)
@foreign_option(
    "--output_layer", "-1 is --average, -2 is --all, k is --layer k", of="ELMoForManyLangs"
)
@foreign_option(
    "--output_format",
    "hdf5 is --format elmoformanylangs, txt elmoformanylangs-text",
    of="ELMoForManyLangs",
)
@foreign_option(
    "--input_format", "plain is --input-format tab, conll is conllu", of="ELMoForManyLangs"
)
@foreign_option("--gpu", "0 is --device cuda:0", of="ELMoForManyLangs")
@foreign_option("--output_prefix", "OUTPUT is the name of the file", of="ELMoForManyLangs")
@foreign_option("--options-file", _PAIR, of="`allennlp elmo`")
@foreign_option("--weight-file", _PAIR, of="`allennlp elmo`")
@foreign_option(
    "--cuda-device", "--device cuda:0 is the first GPU, --device cpu is -1", of="`allennlp elmo`"
)
@server_option("Compute on this server, not in this process.")
@api_key_option()
@click.option(
    "--input-format",
    type=click.Choice(list(INPUTS)),
    help="Tokens between white space, tokens between TABs, CoNLL-U, a token a line in columns "
    "(CoNLL-2003) or FASTA. Default: by the ending of INPUT (.conllu; .conll; .fasta, .fa, .faa, "
    ".fas), else plain.",
)
@click.option(
    "--column",
    type=click.IntRange(min=0),
    metavar="N",
    help="conll: the column of the tokens, from 0. Default: 0.",
)
@tokenizer_option("Split each line into tokens; model: with the tokenizer of the model.", "model")
@click.option(
    "--format",
    "--layout",
    "output_format",
    type=click.Choice(list(OUTPUTS)),
    help="Format of OUTPUT. Default: by its ending (.hdf5 and .h5: allennlp; .npz; .parquet), of "
    f"FASTA seqvec; of parts: {PARTS}.",
)
@click.option("--forget-sentences", is_flag=True, help="allennlp: no `sentence_to_index`.")
@click.option("--use-sentence-keys", is_flag=True, help="allennlp: sentences as keys.")
@click.option("--keep-blank-lines", is_flag=True, help="A blank line is a sentence of no tokens.")
@click.option("--carry-state", is_flag=True, help="Carry LSTM state, as AllenNLP and bilm-tf did.")
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    help=f"With --carry-state: sentences in a batch. Default: {BATCH_SIZE}.",
)
@device_option()
@precision_option("Precision of the weights; vectors are float32.")
@click.option("--force", is_flag=True, help="Replace OUTPUT, and the part of another run.")
@click.option(
    "--part-sentences",
    type=click.IntRange(min=1),
    help="Sentences of a part, in a folder of parts. Default: 2000.",
)
@click.option("--protein", is_flag=True, help="FASTA: one vector, the mean over the residues.")
@click.option(
    "--upper/--no-upper",
    default=None,
    help="FASTA: letters in upper case. Default: in the layout seqvec.",
)
@click.option(
    "--unknown",
    type=click.Choice(UNKNOWN, case_sensitive=False),
    default="keep",
    show_default=True,
    help="FASTA: what becomes of letters other than the 25 of amino acids.",
)
@click.option("--split-char", metavar="C", help="seqvec: splits a header. Default: |.")
@click.option(
    "--id",
    type=click.IntRange(min=-1),
    metavar="N",
    help="seqvec: the field of a header that is the id, from 0; -1: all of it. Default: 1.",
)
def embed(**values: Any) -> None:
    """Write the vectors of every sentence of INPUT to OUTPUT.

    Give one of --all, --top, --average, --sum, --concat and --layer; the layouts of proteins have
    one of their own. A command that was interrupted or killed continues where it was when it is
    started again. `-` is standard input or standard output. Where INPUT is a folder, OUTPUT is a
    folder of parts.

    \b
    Examples:
      $ elmo embed sentences.txt vectors.hdf5 --all
      $ elmo embed text.txt vectors.npz --top --tokenizer model
      $ elmo embed sentences.conllu vectors.npz --top --input-format conllu
      $ elmo embed sentences.txt vectors.npz --average --server http://localhost:8000
      $ elmo embed corpus/ vectors/ --top
      $ elmo embed proteins.fasta vectors.h5 --model seqvec
      $ echo "Hello world" | elmo embed - - --top --format elmoformanylangs-text
    """
    options = Options(**values)
    _check(options)
    from elmo_serve.commands.embed_run import write_vectors

    write_vectors(options)


def _check(options: Options) -> None:
    """Refuse options that exclude each other or would have no effect."""
    _check_proteins(options)
    # A file without a format, which needs no layers in some, is refused by the run.
    has_format = options.to_folder or options.output_format or output_format(options.output)
    if len(options.layers) > 1 or (has_format and not (options.layers or options.layout)):
        names = ", ".join(f"--{name}" for name in NAMED)
        if not options.layers and options.holds_fasta:
            fail(f"{options.input} holds FASTA: {_LAYOUT}", code=2)
        fail(f"one of {names} and --layer is needed, and only one", code=2)
    _check_source(options)
    if options.to_folder:
        _check_folder(options)
    elif Path(options.output).is_dir() and not options.layout:
        fail(
            f"{options.output} is a folder and {options.input} a file: name a file, or the "
            "--part-sentences of a folder of parts",
            code=2,
        )
    for name, needed in _GO_WITH.items():
        if not getattr(options, needed):
            refuse_given(f"has no effect without --{needed.replace('_', '-')}", name)


def _check_source(options: Options) -> None:
    source, output = Path(options.input), Path(options.output)
    if source.is_file() and output.exists() and source.samefile(output):
        fail(f"{options.output} is INPUT: the vectors would take the place of the text", code=2)
    if options.server:
        refuse_given(WITH_SERVER, "device", "precision")
        refuse_given("needs the model in this process: a server keeps no state", "carry_state")
        if options.word_vectors not in (None, "append"):
            fail("--word-vectors is `append` with --server: the server has the file", code=2)
    form = "fasta" if options.is_fasta else options.input_format
    if form not in (None, "conll"):
        refuse_given(f"goes with --input-format conll, not {form}", "column")
    if options.tokenizer and form not in (None, "plain"):
        fail(f"--tokenizer splits plain text, not {form}", code=2)


def _without_format(options: Options) -> Iterator[str]:
    """Yield a file, or files of a folder whose names say no format: the first ones of many."""
    source = Path(options.input)
    if not source.is_dir():
        return iter([options.input])
    plain = (name for name in options.corpus.files if input_format(name) == "plain")
    return (str(source / name) for name in islice(plain, _LOOKED_INTO))


def _check_proteins(options: Options) -> None:
    name = options.output_format
    if not options.is_fasta:
        if name in LAYOUTS:
            fail(f"{name} is a layout of FASTA, not of {options.input_format}", code=2)
        names = () if options.input_format else _without_format(options)
        if (fasta := next(filter(begins_as_fasta, names), None)) is not None:
            wanted = "name --input-format fasta, or plain for text"
            fail(f"{fasta} begins with '>', as FASTA does: {wanted}", code=2)
        refusal = "goes with FASTA and its layouts, not this INPUT"
        if options.holds_fasta and options.input_format is None:
            refusal = f"has no effect: {options.input} holds FASTA: {_LAYOUT}"
        refuse_given(refusal, *_RECORD_OPTIONS)
    is_english = options.model == DEFAULT_MODEL and not (options.server or is_given("model"))
    if is_english and (options.is_fasta or (options.holds_fasta and not options.input_format)):
        fail(options.english_fault, code=2)
    if options.layout is None:
        return
    if options.has_parts:
        fail(f"{name} is one file: leave out --part-sentences", code=2)
    if options.layout == "bio_embeddings" and options.layers:
        fail("bio_embeddings holds all layers and their sum: name no other layers", code=2)


def _check_folder(options: Options) -> None:
    source, output = options.input, options.output
    refuse_given("goes with one file: parts are computed in any order", "carry_state")
    if source == "-":
        fail("the INPUT of parts is a file or a folder, not standard input", code=2)
    if output == "-" or (Path(output).exists() and not Path(output).is_dir()):
        fail(f"the OUTPUT of parts is a folder, and {output} is none", code=2)
    form = output_format(output)
    if form not in (None, options.output_format or PARTS) and not Path(output).exists():
        fail(f"{output} ends like a file, and the OUTPUT of parts is a folder: name one", code=2)
    if Path(output).resolve().is_relative_to(Path(source).resolve()):
        fail(f"OUTPUT lies in INPUT, {source}: its parts would be read as text", code=2)
