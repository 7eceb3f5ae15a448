"""Token vectors that bilm-tf computed beforehand: an HDF5 file of the one dataset `embedding`.

They stand in for the characters: `options.json` and `weights.hdf5` beside them give the biLM, and
`vocab.txt` says which row is which word's.
"""

from pathlib import Path

from elmo_model.checkpoints import allennlp, hdf5, layout, options
from elmo_model.checkpoints.checkpoint import Checkpoint, CheckpointError
from elmo_model.checkpoints.source import ZIP_MAGIC, FolderSource, Source, ZipSource, head

NAME = "token-embeddings"

# of the pair beside them
_OTHERS = ("char_embed", "CNN/", "CNN_high_", "CNN_proj/")


def recognises(path: Path) -> bool:
    """Tell whether such a file lies here, in a folder, a zip or on its own."""
    if path.is_dir():
        return _table_in(FolderSource(path)) is not None
    if head(path, len(ZIP_MAGIC)) == ZIP_MAGIC:
        return _table_in(ZipSource(path)) is not None
    return hdf5.is_hdf5(path) and _is_table(FolderSource(path.parent), path.name)


def read(path: Path) -> Checkpoint:
    """Read the model that lies here. Raises CheckpointError where it is not whole."""
    if path.is_dir():
        source: Source = FolderSource(path)
        file = _table_in(source)
    elif head(path, len(ZIP_MAGIC)) == ZIP_MAGIC:
        source = ZipSource(path)
        file = _table_in(source)
    else:
        source, file = FolderSource(path.parent), path.name
    assert file is not None, "a place that was recognised"
    pair = allennlp.pair_in(source, leaving=file)
    described, origin = options.read(source, pair.options), f"in {pair.options_label}"
    with hdf5.datasets(source, file) as table, hdf5.datasets(source, pair.weights) as weights:
        vocabulary = allennlp.vocabulary_of(source, table)
        config = options.config_of(described, weights.names(), vocabulary.word_count)
        tensors = layout.decode(weights, config, origin, table=table)
        characters = [name for name in weights.names() if name.startswith(_OTHERS)]
        layout.refuse_unexpected(weights, config, origin, {layout.WORDS, *characters})
    return Checkpoint(pair.name, NAME, config, vocabulary, tensors)


def _table_in(source: Source) -> str | None:
    """Return the one file of token vectors; None where there is none or no biLM beside it."""
    files = [file for file in source.files() if file.endswith(".hdf5")]
    if len(files) < 2:
        return None
    # what is called like weights need not be unpacked for a look
    others = [file for file in files if not file.endswith(("weights.hdf5", "model.hdf5"))]
    tables = [file for file in others if _is_table(source, file)]
    return tables[0] if len(tables) == 1 else None


def _is_table(source: Source, file: str) -> bool:
    try:
        with hdf5.datasets(source, file) as datasets:
            return set(datasets.names()) == {layout.WORDS}
    except CheckpointError:
        return False
