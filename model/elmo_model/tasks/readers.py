"""Files of labelled examples: CoNLL-U, columns of tokens, tables and JSON lines.

The end of a file's name, before `.gz`, `.xz` or `.bz2`, says its format: `.conllu` is CoNLL-U;
`.tsv`, `.csv` and `.jsonl` are tables whose first line, or whose keys, name the columns; anything
else, and a `.tsv` for token labels without such columns, has one token and its label a line, with
blank lines between sentences.
"""

import csv
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from elmo_model.errors import OptionError, shown
from elmo_model.tasks.examples import Examples, FitError, Kind, Side
from elmo_model.text import conll
from elmo_model.text.files import lines_of
from elmo_model.text.tokenizers import Tokenize, TokenizeError

_log = logging.getLogger(__name__)

_COMPRESSED = (".gz", ".xz", ".bz2")
_CONLLU_COLUMNS = {"lemma": 2, "upos": 3, "xpos": 4, "feats": 5, "deprel": 7}
_TEXT = ("text", "sentence")
_WORD = ("token_index", "sentence")
# Longest text in a field; the csv library's own limit is 128 Ki. A larger number takes more memory
# before a quote that is never closed is an error.
_FIELD_CHARACTERS = 1 << 24


@dataclass(frozen=True, slots=True)
class TableRow:
    """One line of a table: its fields by column, texts or of JSON; and two places for messages.

    `place` is that of the line, `head` that of the names of the columns.
    """

    place: str
    fields: Mapping[str, Any]
    head: str

    def __contains__(self, column: object) -> bool:
        return column in self.fields

    def field(self, *columns: str) -> str:
        """Return the first of some columns that there is, as text.

        A list of tokens gets spaces between them; `null` is a missing value, as an empty column is.
        Raises FitError for no such column, and for an object or a list of lists.
        """
        for column in columns:
            if column in self.fields:
                value = self.fields[column]
                values = value if isinstance(value, list) else [value]
                if any(isinstance(each, list | dict) for each in values):
                    raise FitError(
                        f"{self.place}: {column} is {shown(value)}, expected text, a number or "
                        "a list of them"
                    )
                return "" if value is None else " ".join(map(str, values))
        raise self.lacks(" or ".join(columns))

    def split(self, column: str, tokenize: Tokenize) -> list[str]:
        """Return the tokens of a text. Raises FitError for no string, or as the tokenizer."""
        value = self.fields[column]
        if not isinstance(value, str | None):
            raise FitError(f"{self.place}: {column} is {shown(value)}, expected a string")
        try:
            return list(tokenize(value or "").tokens)
        except TokenizeError as error:
            raise FitError(f"{self.place}: {error}") from error

    def label(self, column: str) -> str:
        """Return a label. Raises FitError for an empty one, and where there is no such column."""
        if column not in self.fields:
            raise self.lacks(f"{column}; elmo fit --label names another column")
        label = self.field(column)
        if not label:
            raise FitError(f"{self.place}: the column {column} is empty, expected a label")
        return label

    def token(self, column: str, tokens: Sequence[str]) -> int:
        """Return the number of a token of a sentence. Raises FitError beyond its end."""
        index = self.field(column)
        if not index.isdecimal() or int(index) >= len(tokens):
            raise FitError(
                f"{self.place}: {column} is {shown(index)}, expected the number of a token of the "
                f"sentence, from 0 to {len(tokens) - 1}"
            )
        return int(index)

    def word(self, label: str) -> tuple[list[str], int, str]:
        """Return the tokens of `sentence`, the number `token_index` of one, and its label."""
        if not {*_WORD, label} <= self.fields.keys():
            expected = "sentence (tokens with spaces between them), token_index (from 0) and"
            raise self.lacks(f"{expected} {label}")
        tokens = self.field("sentence").split(" ")
        return tokens, self.token("token_index", tokens), self.label(label)

    def lacks(self, expected: str) -> FitError:
        """Return the error for a table without some columns."""
        found = ", ".join(map(shown, self.fields))
        return FitError(f"{self.head}: has the columns {found}; expected {expected}")


def read_examples(
    path: Path, kind: Kind, label: str, tokenize: Tokenize, limit: int | None = None
) -> Examples:
    """Read labelled examples; `limit` keeps the first sentences, or pairs.

    `label` is the column that holds the labels. `tokenize` splits the column `text`; the columns
    `sentence`, `sentence1` and `sentence2` hold tokens with spaces between them. A table for tokens
    has `token_index` (counted from 0) and `sentence`; a pair may have `index1` and `index2`.

    Raises FitError, which names file, line, what was found and what is expected; TextError for a
    file that is not text.
    """
    if kind == "token" and (_ending(path) == ".conllu" or not _names_columns(path)):
        try:
            return Examples.of_tokens(islice(_tagged(path, label), limit))
        except conll.ConllError as error:
            raise FitError(f"{path}: {error}") from error
    rows = islice(read_rows(path), limit)
    match kind:
        case "token":
            return Examples.of_words(row.word(label) for row in rows)
        case "sentence":
            return Examples.of_sentences(_sentence(row, label, tokenize) for row in rows)
        case "pair":
            return Examples.of_pairs(_pair(row, label, tokenize) for row in rows)


def read_parts(
    train: Path, test: Path | None, kind: Kind, label: str, tokenize: Tokenize, limit: int | None
) -> tuple[Examples, Examples | None]:
    """Read the examples to learn from, `limit` of them, and those of `test` to score on.

    Logs a warning for each file with sentences without tokens: those of empty cells. Raises as
    `read_examples`, FitError for a file that nothing can be learned from, or scored, and
    OptionError for a label that none of the files can have.
    """
    files = [path for path in (train, test) if path is not None]
    is_named = kind != "token" or any(_names_columns(path) for path in files)
    if not is_named and label != "label":
        raise OptionError(
            f"{train}: --label {label} has no effect: leave it out, the columns of the file have "
            "no names, and the last one holds the labels"
        )
    learned = read_examples(train, kind, label, tokenize, limit)
    learned.check(str(train))
    scored = None if test is None else read_examples(test, kind, label, tokenize)
    if scored is not None and not len(scored):
        raise FitError(f"{test}: holds no example")
    for path, examples in ((train, learned), (test, scored)):
        if examples is not None and (empty := examples.sentences.count(())):
            _log.warning("%s: sentences without tokens, whose vectors are zeros: %d", path, empty)
    return learned, scored


def _ending(path: Path) -> str:
    inner = path.with_suffix("") if path.suffix in _COMPRESSED else path
    return inner.suffix.lower()


def _names_columns(path: Path) -> bool:
    """Return whether a file for token labels is CoNLL-U, or a table of words in sentences."""
    ending = _ending(path)
    if ending in (".conllu", ".csv", ".jsonl"):
        return True
    if ending != ".tsv":
        return False
    return set(_WORD) <= set(next(lines_of(path), "").split("\t"))


def _tagged(path: Path, label: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the words of each sentence, and their labels: of CoNLL-U, or the last column.

    Raises FitError for no column of CoNLL-U, ConllError and TextError.
    """
    if _ending(path) != ".conllu":
        for words in conll.read(lines_of(path), (0, -1)):
            yield [token for token, _ in words], [tag for _, tag in words]
        return
    if label not in _CONLLU_COLUMNS:
        expected = ", ".join(_CONLLU_COLUMNS)
        found = "needed:" if label == "label" else f"{shown(label)}, expected"  # the default
        raise FitError(f"{path}: --label is {found} one of {expected}")
    column = _CONLLU_COLUMNS[label]
    for words in conll.read_conllu(lines_of(path)):
        yield [word[conll.FORM] for word in words], [word[column] for word in words]


def read_rows(path: Path) -> Iterator[TableRow]:
    """Yield the lines of a table. Raises FitError and TextError as `read_examples` does."""
    ending = _ending(path)
    if ending not in (".tsv", ".csv", ".jsonl"):
        raise FitError(
            f"{path}: its name ends in {ending or 'nothing'}, expected .tsv, .csv or .jsonl"
        )
    if ending == ".jsonl":
        yield from _json_rows(path)
        return
    lines = (f"{line}\n" for line in lines_of(path))  # a field in quotes may hold line ends
    before = csv.field_size_limit(_FIELD_CHARACTERS)  # a setting of the whole process
    # A quote in a .tsv is a character of the text; in a .csv it encloses a field.
    if ending == ".tsv":
        reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        reader = csv.reader(lines)
    rows = filter(None, reader)  # without blank lines
    try:
        head = next(rows, [])
        place = f"{path}:{reader.line_num}"
        if twice := next((name for name in head if name and head.count(name) > 1), None):
            raise FitError(f"{place}: has the column {twice} twice")
        for fields in rows:
            if len(fields) != len(head):
                raise FitError(
                    f"{path}:{reader.line_num}: number of columns is {len(fields)}, expected "
                    f"{len(head)}: {', '.join(head)}"
                )
            yield TableRow(f"{path}:{reader.line_num}", dict(zip(head, fields, strict=True)), place)
    except csv.Error as error:
        raise FitError(f"{path}:{reader.line_num}: is no table: {error}") from error
    finally:
        csv.field_size_limit(before)


def _json_rows(path: Path) -> Iterator[TableRow]:
    for number, line in enumerate(lines_of(path), 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FitError(f"{path}:{number}: is not JSON: {error}") from error
        if not isinstance(found, dict):
            raise FitError(f"{path}:{number}: found {shown(line.strip())}, expected an object")
        yield TableRow(f"{path}:{number}", found, f"{path}:{number}")


def _sentence(row: TableRow, label: str, tokenize: Tokenize) -> tuple[list[str], str]:
    if "text" in row:
        return row.split("text", tokenize), row.label(label)
    return row.field(*_TEXT).split(), row.label(label)


def _pair(row: TableRow, label: str, tokenize: Tokenize) -> tuple[Side, Side, str]:
    sides: list[Side] = []
    if ("index1" in row) != ("index2" in row):
        raise row.lacks("both index1 and index2, or neither")
    for number in (1, 2):
        text, index = f"text{number}", f"index{number}"
        if text in row:
            tokens = row.split(text, tokenize)
        else:
            tokens = row.field(f"sentence{number}", text).split()
        sides.append((tokens, row.token(index, tokens) if index in row else None))
    return sides[0], sides[1], row.label(label)
