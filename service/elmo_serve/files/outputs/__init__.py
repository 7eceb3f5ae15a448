"""Formats of output files, one module each, and the table of them.

The libraries that write them are imported when a file is written: commands import this table.
"""

from pathlib import Path, PurePath
from typing import Final

from elmo_serve.files.outputs import allennlp, elmoformanylangs, npz, parquet
from elmo_serve.files.outputs.output_format import OutputFormat

OUTPUTS: dict[str, OutputFormat] = {
    "allennlp": allennlp.NUMBERED,
    "elmoformanylangs": elmoformanylangs.HDF5,
    "elmoformanylangs-text": elmoformanylangs.TEXT,
    "npz": npz.FORMAT,
    "parquet": parquet.FORMAT,
    "seqvec": allennlp.SEQVEC,
}

PARTS: Final = "parquet"
"""The format of the parts of a folder, unless another one is asked for."""


def output_format(path: str) -> str | None:
    """Return the name of the format of a file by its ending, None for another ending."""
    ending = PurePath(path).suffix.lower()
    return next((name for name, form in OUTPUTS.items() if ending in form.endings), None)


def is_stream(output: str) -> bool:
    """Tell whether OUTPUT is a pipe, a device or an open file, beside which no part can be kept."""
    path = Path(output)
    is_descriptor = path.is_relative_to("/dev") and path.is_symlink()  # /dev/stdout, /dev/fd/3
    is_other = path.exists() and not path.is_file() and not path.is_dir()
    return output == "-" or is_descriptor or is_other
