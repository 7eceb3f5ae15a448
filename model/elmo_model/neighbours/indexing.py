"""The index of a text of any size, in bounded memory; a killed run is continued."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo_model.files.locks import only_writer
from elmo_model.inference.centre import centre_of
from elmo_model.inference.closeness import Network
from elmo_model.neighbours.manifest import FILE, Manifest
from elmo_model.neighbours.text import IndexFolderError, TextPart, TextParts
from elmo_model.neighbours.writer import IndexWriter, PartWriter, refuse_foreign
from elmo_model.steps import OnStep, ignore
from elmo_model.text.batches import by_length


@dataclass(frozen=True, slots=True)
class Indexed:
    """The result of a run: the tokens of the index, and those of earlier runs among them."""

    tokens: int
    sentences: int
    words: int
    resumed: int


def index_text(
    network: Network,
    text: TextParts,
    folder: Path,
    manifest: Manifest,
    batch_tokens: int,
    on_step: OnStep = ignore,
) -> Indexed:
    """Write the index of a text to a folder, or continue it.

    The folder is missing or empty, or a run with the same arguments has begun it. `manifest` is
    the description of the index, without parts. The network computes batches of at most
    `batch_tokens` tokens, boundaries included. `on_step` is told the tokens that are indexed and
    all tokens, estimated from the bytes.

    Raises IndexFolderError for a folder with something else in it or an index of another text,
    model or tokenizer, and for a text without a token; TextError for a line that cannot be read,
    and OSError for a full disk.
    """
    size = text.size()
    if not (folder / FILE).exists():
        refuse_foreign(folder)  # before a lock is left in it
    with only_writer(folder, IndexFolderError(f"another process writes the index in {folder}")):
        if (folder / FILE).exists():
            writer = IndexWriter.resume(folder)
            _check(folder, writer.manifest, manifest)
        else:
            centre = centre_of(network, batch_tokens).layers
            writer = IndexWriter.begin(folder, manifest, centre)
        resumed = writer.manifest.tokens
        try:
            _add_parts(network, text, writer, batch_tokens, size, on_step)
            found = writer.manifest
            if not found.tokens:
                raise IndexFolderError(f"{text.path}: has no token")
        finally:
            if not writer.manifest.tokens:  # another text may come into the folder
                (folder / FILE).unlink(missing_ok=True)
        if found.words is None:
            writer.finish()
    return Indexed(found.tokens, found.sentences, found.known_words, resumed)


def _add_parts(
    network: Network,
    text: TextParts,
    writer: IndexWriter,
    batch_tokens: int,
    size: int,
    on_step: OnStep,
) -> None:
    for part in text.after(writer.manifest.parts):
        if writer.manifest.words is not None:
            raise IndexFolderError(
                f"{text.path}: has more lines than the finished index of it; name another folder"
            )
        before = writer.manifest.tokens
        total = before + round(part.tokens * (size - part.start) / part.size)
        new = writer.new_part(part.sentences)
        done = before
        for tokens in _embed(network, part, new, batch_tokens):
            done += tokens
            on_step("Indexing", done, total)
        writer.add(new, part.lines, part.digest)


def _embed(
    network: Network, part: TextPart, writer: PartWriter, batch_tokens: int
) -> Iterator[int]:
    """Write the layers of all sentences, and yield the tokens of each batch."""
    sentences: Sequence[Sequence[str]] = part.sentences
    for batch in by_length(range(len(sentences)), sentences, batch_tokens):
        layers = network.embed([sentences[number] for number in batch])
        for number, own in zip(batch, layers, strict=True):
            writer.write(number, own.cpu().numpy())
        yield sum(len(sentences[number]) for number in batch)


def _check(folder: Path, found: Manifest, expected: Manifest) -> None:
    """Raise IndexFolderError for an index of another text, model or tokenizer."""
    if found.revision != expected.revision:
        raise IndexFolderError(
            f"{folder} is an index of the model {found.model}, revision {found.revision}; this is "
            f"{expected.model}, revision {expected.revision}: name another folder"
        )
    for name in ("text", "tokenizer"):
        if (own := getattr(found, name)) != (wanted := getattr(expected, name)):
            raise IndexFolderError(
                f"{folder} is an index with the {name} {own!r}, expected {wanted!r}: name another "
                "folder"
            )
