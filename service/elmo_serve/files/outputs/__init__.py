"""Formats of output files, one module each, and the table of them."""

from elmo_serve.files.outputs import allennlp, elmoformanylangs, npz, parquet
from elmo_serve.files.outputs.output_format import OutputFormat

OUTPUTS: dict[str, OutputFormat] = {
    "allennlp": allennlp.NUMBERED,
    "elmoformanylangs": elmoformanylangs.HDF5,
    "elmoformanylangs-text": elmoformanylangs.TEXT,
    "npz": npz.FORMAT,
    "parquet": parquet.FORMAT,
}

BY_SUFFIX = {".hdf5": "allennlp", ".h5": "allennlp", ".npz": "npz", ".parquet": "parquet"}
