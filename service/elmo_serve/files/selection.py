"""The vectors of a sentence that a file holds."""

from elmo_serve.files.sentence import FileError
from elmo_serve.output import Output, SelectionError, select, with_word_vectors


def selection(
    layers: str | int, count: int, *, normalize: bool = False, appended: int = 0
) -> Output:
    """Return the output for a model of `count` layers: a name, or a layer by its number.

    `appended` is the width of the word vectors behind each vector. Raises FileError for a layer
    that the model lacks, and for word vectors behind several layers.
    """
    try:
        output = select(layers, count, normalize=normalize)
        return with_word_vectors(output, appended) if appended else output
    except SelectionError as error:
        raise FileError(str(error)) from None
