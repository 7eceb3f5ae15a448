"""Files of labelled examples, and the messages about bad ones."""

import gzip
from pathlib import Path

import pytest

from elmo_model.errors import OptionError
from elmo_model.tasks.examples import Examples, FitError, Kind
from elmo_model.tasks.readers import Reading, read_parts
from elmo_model.text.lines import TextError
from elmo_model.text.tokenizers import Tokenized, TokenizeError, tokenizer

CONLLU = (
    "# a comment\n"
    "1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_\n"
    "2\tcat\tcat\tNOUN\tNN\t_\t0\troot\t_\t_\n\n"
)
SPANS = "Anna B-PER\nlives O\n\nRome B-LOC\n\n"


def reading(kind: Kind = "token", label: str | None = None, column: int | None = None) -> Reading:
    return Reading(kind, tokenizer("ptb"), label, column)


def read(path: Path, text: str, how: Reading | None = None, limit: int | None = None) -> Examples:
    path.write_text(text, encoding="utf-8")
    return read_parts(path, None, how or reading(), limit)[0]


@pytest.mark.parametrize(
    ("label", "labels"), [("upos", ("DET", "NOUN")), ("deprel", ("det", "root"))]
)
def test_conllu(tmp_path: Path, label: str, labels: tuple[str, ...]) -> None:
    (tmp_path / "a.conllu.gz").write_bytes(gzip.compress(CONLLU.encode()))

    examples, _ = read_parts(tmp_path / "a.conllu.gz", None, reading(label=label))

    assert examples.sentences == (("The", "cat"),) and examples.labels == (labels,)


def test_columns_of_tokens(tmp_path: Path) -> None:
    text = "-DOCSTART- -X- O\n\nEU B-ORG\nrejects O\n\n\t\nPeter\tNNP\tB-PER \n"

    examples = read(tmp_path / "a.tsv", text)

    assert examples.sentences == (("EU", "rejects"), ("Peter",))
    assert examples.labels == (("B-ORG", "O"), ("B-PER",)) and examples.are_spans


def test_columns_are_chosen_by_their_numbers(tmp_path: Path) -> None:
    """GermEval: number, token, outer label, nested label."""
    text = "#\thttp://x.org [2009]\n1\tAnna\tB-PER\tO\n2\tlebt\tO\tO\n3\tin\tO\tO\n"

    examples = read(tmp_path / "a.tsv", text, reading(label="2", column=1))

    assert examples.sentences == (("Anna", "lebt", "in"),)
    assert examples.labels == (("B-PER", "O", "O"),)
    with pytest.raises(FitError, match="--column"):
        read(tmp_path / "a.tsv", text)


@pytest.mark.parametrize("limit", [None, 1])
def test_labels_of_spans_become_iob2_in_both_files(tmp_path: Path, limit: int | None) -> None:
    """The form is that of the whole training file, even where fewer sentences are taken."""
    train, test = tmp_path / "train", tmp_path / "test"
    train.write_text("Anna I-PER\nSmith I-PER\nsat O\n\nRome B-LOC\n\n")
    test.write_text("Anna S-PER\n\nRome B-LOC\nCity E-LOC\n")

    learned, scored = read_parts(train, test, reading(), limit)

    assert learned.labels[0] == ("B-PER", "I-PER", "O") and learned.are_spans
    assert scored is not None and scored.are_spans
    assert scored.labels == (("B-PER",), ("B-LOC", "I-LOC"))


def test_a_label_that_is_none_of_a_span_is_named_once_and_read_as_o(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.conll"

    examples = read(path, SPANS * 100 + "x PER\ny\tMISC\n")

    assert examples.labels[-1] == ("O", "O")
    assert caplog.messages == [
        f"{path}:501: the label 'PER' is none of a span and is read as O, as are 1 more"
    ]
    plain = read(path, SPANS + "x PER\n")
    assert plain.labels[-1] == ("PER",) and not plain.are_spans
    assert len(caplog.messages) == 2
    assert caplog.messages[1].startswith(f"{path}:6: the label 'PER' is none of a span; found 1 ")
    read(path, "x NOUN\ny B-x\n")
    assert len(caplog.messages) == 2


@pytest.mark.parametrize(
    "text",
    [
        'label\ttext\nx\tI can\'t, "no".\ny\tYes\n',
        '\ntext\tmore\tlabel\r\n\r\nI can\'t, "no".\t1\t x \n\nYes\t2\ty\n\n',
        '\ufefflabel\ttext\nx\tI can\'t, "no".\ny\tYes\n',
    ],
)
def test_sentences(tmp_path: Path, text: str) -> None:
    """A quote is a character of the text; spreadsheets write a byte order mark."""
    examples = read(tmp_path / "a.tsv", text, reading("sentence"))

    assert examples.sentences == (("I", "ca", "n't", ",", '"', "no", '"', "."), ("Yes",))
    assert examples.labels == (("x",), ("y",)) and not examples.are_spans


def test_labels_of_sentences_are_never_spans(tmp_path: Path) -> None:
    text = "label\ttext\nI-Seg\ta\nB-Seg\tb\n"

    examples = read(tmp_path / "a.tsv", text, reading("sentence"))

    assert examples.labels == (("I-Seg",), ("B-Seg",)) and not examples.are_spans


def test_a_text_may_be_long(tmp_path: Path) -> None:
    text = f"label\ttext\nx\t{'a ' * 70_000}\ny\tb\n"

    assert len(read(tmp_path / "a.tsv", text, reading("sentence")).sentences[0]) == 70_000


def test_empty_texts_are_counted_in_one_warning_for_each_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train, test = tmp_path / "train.tsv", tmp_path / "test.tsv"
    train.write_text("label\ttext\nx\t\ny\tb\nx\t  \n")
    test.write_text("label\ttext\nx\t\n")

    learned, _ = read_parts(train, test, reading("sentence"))

    assert learned.sentences == ((), ("b",), ())
    rest = "sentences without tokens, whose vectors are zeros"
    assert caplog.messages == [f"{train}: {rest}: 2", f"{test}: {rest}: 1"]


@pytest.mark.parametrize(
    ("name", "text", "how", "message"),
    [
        ("a.conllu", CONLLU, reading(label="tag"), "--label is 'tag'"),
        ("a.conllu", CONLLU, reading(), "--label is needed"),
        ("a.txt", "EU B-ORG\nrejects\n", reading(), "line 2"),
        ("a.txt", "EU B-ORG\n", reading(label="4"), "line 1"),
        ("a.txt", "EU B-ORG\n", reading(column=1), r"a\.txt: line 1 .*column 1 .*column 1,"),
        ("a.txt", "EU B-ORG\n", reading(label="0"), "line 1 .*column 0 .*column 0,"),
        ("a.txt", "1 EU B-ORG\n\n1 O\n", reading(label="-1", column=1), "line 3 .*column 1,"),
        ("a.csv", "text,label\na b,x\n", reading(), r"a\.csv"),
        ("a.csv", "label,text\nx,a\n", reading("sentence"), r"\.tsv"),
        ("a.tsv", "text\nx\n", reading("sentence"), "tsv:1: .*label"),
        ("a.tsv", "label\ttext\nx\n", reading("sentence"), "tsv:2: .*columns"),
        ("a.tsv", "label\ttext\n \tx\n", reading("sentence"), "tsv:2: .*empty"),
        ("a.tsv", "label\ttext\nx\ta\rb\n", reading("sentence"), "tsv:2: .*inside"),
        ("a.tsv", "label\ttext\ttext\nx\ta\tb\n", reading("sentence"), "tsv:1: .*columns"),
        ("a.tsv", "label\ttext\n", reading("sentence"), "no example"),
    ],
)
def test_bad_files_are_refused_with_their_line(
    tmp_path: Path, name: str, text: str, how: Reading, message: str
) -> None:
    with pytest.raises(FitError, match=message):
        read(tmp_path / name, text, how)


@pytest.mark.parametrize(
    ("name", "text", "how", "option"),
    [
        ("a.txt", "EU ORG\nrejects O\n", reading(label="upos"), "--label is 'upos', expected the"),
        ("a.conllu", CONLLU, reading(label="upos", column=1), "--column has no effect"),
        ("a.tsv", "label\ttext\nx\ta\n", reading("sentence", label="label"), "--label has no eff"),
        ("a.tsv", "label\ttext\nx\ta\n", reading("sentence", column=0), "--column has no effect"),
    ],
)
def test_an_option_that_the_file_cannot_have_is_refused(
    tmp_path: Path, name: str, text: str, how: Reading, option: str
) -> None:
    with pytest.raises(OptionError, match=rf"{name}: {option}"):
        read(tmp_path / name, text, how)


def test_a_test_part_without_examples_is_refused(tmp_path: Path) -> None:
    sound, empty = tmp_path / "sound.tsv", tmp_path / "empty.tsv"
    sound.write_text("label\ttext\nx\ta\ny\tb\n")
    empty.write_text("label\ttext\n")

    with pytest.raises(FitError, match=r"empty\.tsv"):
        read_parts(sound, empty, reading("sentence"))


@pytest.mark.parametrize(
    ("learned", "scored", "place", "more"),
    [
        ("a X\nb Y\n\nc Z\n", "a O\nb X\nc c\nd d\n", ":3: .*2 of 3", "e Z\n"),
        ("a B-x\nb I-x\n", "a O\nb B-y\nc I-y\nd S-x\n", ":2: .*2 of 3", "e E-x\n"),
        ("a B-x\nb I-x\n", "a a\nb b\n", ":1: .*2 of 2", "c I-x\nd L-x\n"),
    ],
)
def test_a_test_part_of_mostly_unknown_labels_is_refused(
    tmp_path: Path, learned: str, scored: str, place: str, more: str
) -> None:
    train, test = tmp_path / "train", tmp_path / "test"
    train.write_text(learned)
    test.write_text(scored)

    with pytest.raises(FitError, match=f"test{place}"):
        read_parts(train, test, reading())
    test.write_text(scored + more)  # half of them are in the file, of which a part is taken
    read_parts(train, test, reading(), limit=1)


def test_sentences_of_mostly_unknown_labels_are_refused(tmp_path: Path) -> None:
    train, test = tmp_path / "train.tsv", tmp_path / "test.tsv"
    train.write_text("label\ttext\nx\ta\ny\tb\n")
    test.write_text("text\tlabel\na\tX\n")

    with pytest.raises(FitError, match=r"test\.tsv:2: .*'X'"):
        read_parts(train, test, reading("sentence"))


def test_a_test_file_with_the_bytes_of_the_training_file_is_refused(tmp_path: Path) -> None:
    train, test = tmp_path / "train", tmp_path / "test"
    train.write_text(SPANS)
    test.write_text(SPANS)

    for path in (train, test):
        with pytest.raises(TextError, match="same text"):
            read_parts(train, path, reading())
    test.write_text(SPANS + "x O\n")
    read_parts(train, test, reading())
    for path in (train, test):  # as pipes, empty files have no size to compare
        path.write_text("")
    with pytest.raises(FitError, match="no example"):
        read_parts(train, test, reading())


def test_a_text_that_cannot_be_split_is_refused_with_its_line(tmp_path: Path) -> None:
    def tokenize(text: str) -> Tokenized:
        raise TokenizeError(f"cannot split {text}")

    path = tmp_path / "a.tsv"
    path.write_text("label\ttext\nx\todd\n")
    with pytest.raises(FitError, match=r"a\.tsv:2"):
        read_parts(path, None, Reading("sentence", tokenize))
