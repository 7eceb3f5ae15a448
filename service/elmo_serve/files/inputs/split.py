"""Lines of text that a tokenizer has split: one JSON list a line, of the text and its tokens."""

from collections.abc import Iterable, Iterator

import orjson

from elmo_model.tokenizers import Tokenize, TokenizeError
from elmo_serve.files.sentence import FileError, Sentence


def split_lines(lines: Iterable[str], split: Tokenize) -> Iterator[bytes]:
    """Yield a JSON line for each line of text. Raises FileError for one that cannot be split."""
    for number, line in enumerate(lines, 1):
        text = line.strip()
        try:
            tokens = split(text).tokens
        except TokenizeError as error:
            raise FileError(f"line {number}: {error}") from error
        yield orjson.dumps((text, tokens), option=orjson.OPT_APPEND_NEWLINE)


def read(lines: Iterable[str]) -> Iterator[Sentence]:
    """Yield the sentences of lines that `split_lines` made."""
    for line in lines:
        text, tokens = orjson.loads(line)
        yield Sentence(text, tokens)
