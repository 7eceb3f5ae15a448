"""Token vectors that bilm-tf computed beforehand: an HDF5 file of the one dataset `embedding`.

They replace the character CNN of the published pair in the same folder. `vocab.txt` names the word
of each row.
"""

from pathlib import Path

from elmo_model.checkpoints import allennlp, hdf5, layout, options, vocabulary_file
from elmo_model.checkpoints.checkpoint import Checkpoint, CheckpointError
from elmo_model.checkpoints.source import Source, in_folder, source_at

NAME = "token-embeddings"

# The table and the character CNN of the pair, in whose place the other file is used.
_UNUSED = (layout.WORDS, "char_embed", "CNN/", "CNN_high_", "CNN_proj/")


def recognises(path: Path) -> bool:
    """Return whether a file of token vectors is at `path`, or in the folder or zip at `path`."""
    source = source_at(path)
    if source is not None:
        return _table_in(source) is not None
    return hdf5.is_hdf5(path) and _is_table(in_folder(path.parent), path.name)


def read(path: Path) -> Checkpoint:
    """Read the model at `path`. Raises CheckpointError if it is incomplete."""
    archive = source_at(path)
    file = path.name if archive is None else _table_in(archive)
    assert file is not None, "`recognises` accepts nothing else"
    pair = allennlp.find(path, without=file)
    source = pair.source
    described, origin = options.read(source, pair.options), pair.options_label
    with hdf5.datasets(source, file) as table, hdf5.datasets(source, pair.weights) as weights:
        vocabulary = vocabulary_file.read(source)
        config = options.config_of(described, weights.shapes, vocabulary.word_count)
        stored = list(layout.entries(config))
        of_table = [entry for entry in stored if entry.array == layout.WORDS]
        others = [entry for entry in stored if entry.array != layout.WORDS]
        unused = [name for name in weights.shapes if name.startswith(_UNUSED)]
        tensors = {
            **layout.decode(table, of_table, config, vocabulary, origin),
            **layout.decode(weights, others, config, vocabulary, origin, tolerated=unused),
        }
    return Checkpoint(pair.name, NAME, config, vocabulary, tensors)


def _table_in(source: Source) -> str | None:
    """Return the one file of token vectors; None if there is none, or no pair with it."""
    files = [file for file in source.files if file.endswith(".hdf5")]
    if len(files) < 2:
        return None
    # Files named like the weights are not opened: in a zip they would be unpacked for nothing.
    others = [file for file in files if not file.endswith(("weights.hdf5", "model.hdf5"))]
    tables = [file for file in others if _is_table(source, file)]
    return tables[0] if len(tables) == 1 else None


def _is_table(source: Source, file: str) -> bool:
    try:
        with hdf5.datasets(source, file) as datasets:
            return set(datasets.shapes) == {layout.WORDS}
    except CheckpointError:
        return False
