"""Files of labelled examples, and the messages about bad ones."""

import csv
import gzip
from pathlib import Path

import pytest

from elmo_model.errors import OptionError
from elmo_model.tasks.examples import Examples, FitError, Kind, Place
from elmo_model.tasks.readers import read_examples, read_parts
from elmo_model.text.tokenizers import Tokenized, TokenizeError, tokenizer

CONLLU = (
    "# a comment\n"
    "1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_\n"
    "2\tcat\tcat\tNOUN\tNN\t_\t0\troot\t_\t_\n\n"
)


def read(path: Path, text: str, kind: Kind, label: str = "label", **options: int) -> Examples:
    path.write_text(text, encoding="utf-8")
    return read_examples(path, kind, label, tokenizer("ptb"), **options)


@pytest.mark.parametrize(
    ("label", "labels"), [("upos", ("DET", "NOUN")), ("deprel", ("det", "root"))]
)
def test_conllu(tmp_path: Path, label: str, labels: tuple[str, ...]) -> None:
    (tmp_path / "a.conllu.gz").write_bytes(gzip.compress(CONLLU.encode()))

    examples = read_examples(tmp_path / "a.conllu.gz", "token", label, tokenizer("ptb"))

    assert examples.sentences == (("The", "cat"),) and examples.labels == labels


def test_columns_of_tokens(tmp_path: Path) -> None:
    text = "-DOCSTART- -X- O\n\nEU B-ORG\nrejects O\n\n\t\nPeter\tNNP\tB-PER\n"

    examples = read(tmp_path / "a.tsv", text, "token")

    assert examples.sentences == (("EU", "rejects"), ("Peter",))
    assert examples.labels == ("B-ORG", "O", "B-PER")


def test_a_text_may_be_long_and_the_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """Spreadsheets write the mark, which is no part of the first column's name.

    The csv library's own limit of a field is 131,072 characters, for the whole process.
    """
    before = csv.field_size_limit()
    examples = read(tmp_path / "a.csv", f"\ufefflabel,text\nx,{'a ' * 70_000}\ny,b\n", "sentence")

    assert examples.labels == ("x", "y") and len(examples.sentences[0]) == 70_000
    assert csv.field_size_limit() == before


def test_empty_cells_are_counted_in_one_warning_for_each_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    train.write_text('label,text\nx,\ny,b\nx,"  "\n')
    test.write_text("label,text\nx,\n")

    learned, _ = read_parts(train, test, "sentence", "label", tokenizer("ptb"), None)

    assert learned.sentences == ((), ("b",), ())
    rest = "sentences without tokens, whose vectors are zeros"
    assert caplog.messages == [f"{train}: {rest}: 2", f"{test}: {rest}: 1"]


def test_words_in_sentences(tmp_path: Path) -> None:
    text = 'word\tsense\ttoken_index\tsentence\nbank\triver\t2\tthe "steep bank\n'

    examples = read(tmp_path / "a.tsv", text, "token", "sense")

    assert examples.sentences == (("the", '"steep', "bank"),)
    assert examples.places == ((Place(0, 2),),) and examples.labels == ("river",)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", 'label,text\nx,"I can\'t, no."\ny,Yes\n'),
        ("a.tsv", "label\ttext\nx\tI can't, no.\ny\tYes\n"),
        ("a.tsv", "\nlabel\ttext\r\n\r\nx\tI can't, no.\n\ny\tYes\n\n"),
        ("a.csv", 'label,text\nx,"I can\'t, no."\ny,Yes\n\n\n'),
        ("a.jsonl", '{"label": "x", "text": "I can\'t, no.", "more": {"a": [{}]}}\n'
         '{"label": "y", "text": "Yes", "more": {}}\n'),
        ("a.jsonl", '{"label": "x", "text": "I can\'t, no."}\n\n{"label": "y", "text": "Yes"}\n'),
    ],
)  # fmt: skip
def test_sentences(tmp_path: Path, name: str, text: str) -> None:
    examples = read(tmp_path / name, text, "sentence")

    assert examples.sentences == (("I", "ca", "n't", ",", "no", "."), ("Yes",))
    assert examples.labels == ("x", "y")
    assert len(read(tmp_path / name, text, "sentence", limit=1)) == 1


def test_tokens_in_json_stay_as_they_are(tmp_path: Path) -> None:
    text = '{"label": 1, "sentence": ["a", "b."]}\n{"label": 2, "sentence": "c d"}\n'

    examples = read(tmp_path / "a.jsonl", text, "sentence")

    assert examples.sentences == (("a", "b."), ("c", "d")) and examples.labels == ("1", "2")


def test_pairs(tmp_path: Path) -> None:
    head = "label\tindex1\tindex2\tsentence1\tsentence2\n"

    words = read(tmp_path / "a.tsv", head + "T\t0\t1\ta b\tc d\n", "pair")
    whole = read(tmp_path / "b.csv", "label,text1,text2\nT,a.,b\n", "pair")

    assert words.places == ((Place(0, 0), Place(1, 1)),)
    assert whole.places == ((Place(0), Place(1)),) and whole.sentences == (("a", "."), ("b",))


@pytest.mark.parametrize(
    ("name", "text", "kind", "label", "message"),
    [
        ("a.conllu", CONLLU, "token", "tag", "--label is 'tag', expected one of lemma, upos"),
        ("a.conllu", CONLLU, "token", "label", "a.conllu: --label is needed: one of lemma, upos"),
        ("a.txt", "EU B-ORG\nrejects\n", "token", "label", "line 2 is 'rejects'"),
        ("a.tsv", "text\nx\n", "sentence", "label",
         r"tsv:1: has the columns 'text'; expected label; elmo fit --label names another column$"),
        ("a.tsv", "label\ttext\nx\n", "sentence", "label",
         "a.tsv:2: number of columns is 1, expected 2"),
        ("a.tsv", "label\ttext\n\tx\n", "sentence", "label", "a.tsv:2: the column label is empty"),
        ("a.jsonl", "[1]\n", "sentence", "label", r"a.jsonl:1: found '\[1\]', expected an object"),
        ("a.jsonl", "{\n", "sentence", "label", "a.jsonl:1: is not JSON"),
        ("a.tsv", "s\ttoken_index\tsentence\nx\t2\ta b\n", "token", "s",
         "a.tsv:2: token_index is '2', expected the number of a token of the sentence, from "
         "0 to 1"),
        ("a.tsv", "label\ttext\nx\ta\rb\n", "sentence", "label", "a.tsv:2: is no table: new-line"),
        ("a.csv", 'label,text\nx,"' + ("y" * (1 << 23) + "\n") * 3, "sentence", "label",
         "is no table: field larger than"),
        ("a.jsonl", '{"label": null, "text": "x"}\n', "sentence", "label",
         "a.jsonl:1: the column label is empty"),
        ("a.jsonl", "[" * 10_000, "sentence", "label", "a.jsonl:1: is not JSON: .*recursion"),
        ("a.jsonl", '{"label": "x", "text": {"a": 1}}', "sentence", "label",
         "a.jsonl:1: text is {'a': 1}, expected a string"),
        ("a.tsv", "label\ttext1\ttext2\tindex1\nx\ta\tb\t0\n", "pair", "label",
         "a.tsv:1: has the columns .*; expected both index1 and index2, or neither"),
        ("a.jsonl", '{"label": "x", "sentence": ["a", ["b"]]}', "sentence", "label",
         r"a.jsonl:1: sentence is \['a', \['b'\]\], expected text"),
        ("a.csv", "text,label\na b,x\n", "token", "label",
         r"a.csv:1: has the columns 'text', 'label'; expected sentence \(tokens with spaces "
         r"between them\), token_index \(from 0\) and label"),
        ("a.csv", "label,text,text\nx,a,b\n", "sentence", "label",
         "a.csv:1: has the column text twice"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_with_their_line(
    tmp_path: Path, name: str, text: str, kind: Kind, label: str, message: str
) -> None:
    with pytest.raises(FitError, match=message):
        read(tmp_path / name, text, kind, label)


def test_a_label_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    """The columns of a file of tokens and labels have no names; a CoNLL-U file beside it has."""
    columns, conllu = tmp_path / "a.txt", tmp_path / "a.conllu"
    columns.write_text("EU ORG\nrejects O\n")
    conllu.write_text(CONLLU)

    learned, scored = read_parts(columns, conllu, "token", "upos", tokenizer("ptb"), None)
    assert learned.labels == ("ORG", "O") and scored is not None and len(scored) == 2
    with pytest.raises(
        OptionError, match=r"a\.txt: --label upos has no effect: leave it out, the columns"
    ):
        read_parts(columns, None, "token", "upos", tokenizer("ptb"), None)


def test_parts_without_examples_are_refused(tmp_path: Path) -> None:
    sound, empty = tmp_path / "sound.tsv", tmp_path / "empty.tsv"
    sound.write_text("label\tsentence\nx\ta\ny\tb\n")
    empty.write_text("label\tsentence\n")

    for parts in ((sound, empty), (empty, sound)):
        with pytest.raises(FitError, match=r"empty\.tsv: holds no example"):
            read_parts(*parts, "sentence", "label", tokenizer("ptb"), None)


def test_a_text_that_cannot_be_split_is_refused_with_its_line(tmp_path: Path) -> None:
    def tokenize(text: str) -> Tokenized:
        raise TokenizeError(f"cannot split {text}")

    path = tmp_path / "a.tsv"
    path.write_text("label\ttext\nx\todd\n")
    with pytest.raises(FitError, match=r"a\.tsv:2: cannot split odd"):
        read_examples(path, "sentence", "label", tokenize)
