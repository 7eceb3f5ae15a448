"""The command `elmo embed`: its options."""

from __future__ import annotations

from typing import Any

import click

from elmo_serve.commands.options import (
    MODEL_OR_SERVERS,
    api_key_option,
    device_option,
    is_given,
    model_of_server,
    model_option,
    precision_option,
    server_option,
    tokenizer_option,
)
from elmo_serve.commands.terminal import fail
from elmo_serve.files.inputs import INPUTS, UNKNOWN
from elmo_serve.files.outputs import OUTPUTS, PARTS
from elmo_serve.output import NAMED


@click.command()
@click.argument("input", type=click.Path(exists=True, allow_dash=True))
@click.argument("output", type=click.Path(allow_dash=True))
@click.option("--all", is_flag=True, help="All layers of each token.")
@click.option("--top", is_flag=True, help="The top layer.")
@click.option("--average", is_flag=True, help="The mean of all layers.")
@click.option("--sum", is_flag=True, help="The sum of all layers.")
@click.option("--concat", is_flag=True, help="All layers of a token joined to one vector.")
@click.option("--layer", type=click.IntRange(min=0), metavar="K", help="Layer K; 0: token layer.")
@click.option("--normalize", is_flag=True, help="Scale every vector to length 1.")
@click.option(
    "--word-vectors",
    metavar="FILE",
    help="Append the static word vectors of FILE; with --server `append`: those of the server.",
)
@model_option(MODEL_OR_SERVERS)
@server_option("Compute on this server, not in this process.")
@api_key_option
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
    help="With --carry-state: sentences in a batch. Default: 64.",
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
    from elmo_serve.commands.embed_run import ONE_SELECTION, check, write_vectors
    from elmo_serve.files.options import EmbedOptions

    selected = [name for name in NAMED if values.pop(name)]
    layer = values.pop("layer")
    if len(selected) + (layer is not None) > 1:
        fail(ONE_SELECTION, code=2)
    if values["server"]:
        values["model"] = model_of_server()
    options = EmbedOptions(layers=selected[0] if selected else layer, **values)
    check(options, is_model_named=is_given("model"))
    write_vectors(options)
