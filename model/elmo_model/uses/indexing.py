"""The index of a text, written to a folder."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from elmo_model.files import atomic
from elmo_model.inference.centre import CENTRE_TOKENS, Network, centre_of
from elmo_model.steps import OnStep, ignore
from elmo_model.text.by_length import by_length
from elmo_model.uses.files import IndexWriter, temporary_folder
from elmo_model.uses.index import IndexInfo
from elmo_model.uses.text import IndexFolderError, Sentences

_BLOCK = 8_192
"""Sentences whose batches are made together. More of them waste less on padding, and write to more
places of the files at once."""


def write_index(
    network: Network,
    sentences: Sentences,
    folder: Path,
    info: IndexInfo,
    batch_tokens: int,
    on_step: OnStep = ignore,
    lines: Sequence[int] | None = None,
) -> IndexInfo:
    """Write the index of some sentences to a folder that does not exist yet; describe it.

    The centre is the mean over every k-th sentence, some 10,000 tokens. The network computes
    batches of at most `batch_tokens` tokens, boundaries included. `lines` has the line of each
    sentence in its text, from 1. The folder gets its name when it is complete. Raises
    IndexFolderError for a folder that exists, and OSError for a full disk.
    """
    refuse_existing(folder)
    total, done = sum(map(len, sentences)), 0
    sample = sentences[:: max(1, total // CENTRE_TOKENS)]
    centre = centre_of(network, batch_tokens, sample, info.text)
    info = replace(info, centre=centre.text, centre_tokens=centre.tokens)
    with temporary_folder(folder.absolute().parent) as temporary:
        writer = IndexWriter(info, centre.layers, sentences, temporary, lines)
        for start in range(0, len(sentences), _BLOCK):
            numbers = range(start, min(start + _BLOCK, len(sentences)))
            for batch in by_length(numbers, sentences, batch_tokens):
                on_step("Indexing", done, total)
                layers = network.embed([sentences[number] for number in batch])
                for number, each in zip(batch, layers, strict=True):
                    writer.write(number, each.cpu().numpy())
                done += sum(len(sentences[number]) for number in batch)
        on_step("Indexing", total, total)
        index = writer.finish()
        atomic.publish(temporary, folder)
    return index.info


def refuse_existing(folder: Path) -> None:
    """Raise IndexFolderError for a folder with something in it, or a file."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise IndexFolderError(f"{folder} exists; name a folder that does not")
