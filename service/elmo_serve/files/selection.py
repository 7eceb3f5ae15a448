"""The vectors of a sentence that a file holds."""

from elmo_serve.files.sentence import FileError
from elmo_serve.output import Output, SelectionError, select


def selection(layers: str | int, count: int, *, normalize: bool = False) -> Output:
    """Return the output for a model of `count` layers: a name, or a layer by its number.

    Raises FileError for a layer that the model lacks.
    """
    try:
        return select(layers, count, normalize=normalize)
    except SelectionError as error:
        raise FileError(str(error)) from None
