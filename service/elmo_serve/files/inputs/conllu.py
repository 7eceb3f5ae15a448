"""CoNLL-U files: the form of each word is a token."""

from collections.abc import Iterable, Iterator

from elmo_model import conllu
from elmo_serve.files.sentence import FileError, Sentence


def read(lines: Iterable[str]) -> Iterator[Sentence]:
    """Yield every sentence. Raises FileError for a line that is no word.

    Two columns, id and form, are enough.
    """
    try:
        for words in conllu.read(lines, columns=2):
            tokens = [word[conllu.FORM] for word in words]
            yield Sentence(" ".join(tokens), tokens)
    except conllu.ConlluError as error:
        raise FileError(str(error)) from error
