"""Encoded text is independent of the compression."""

import gzip
import lzma
import os
from pathlib import Path

import pytest

from elmo_model.text.lines import TextError
from elmo_model.training import TrainingError
from elmo_model.training.corpus import Corpus, encode, find_shards, sentences_of

TEXT = "The cat sat .\n\n  a  naïve\tcat \n東京 <UNK> cat .\n"
SENTENCES = [["The", "cat", "sat", "."], ["a", "naïve", "cat"], ["東京", "<UNK>", "cat", "."]]
MORE = "cat new\nThe new .\n"


def read(corpus: Corpus) -> list[list[str]]:
    cuts = zip(corpus.starts[:-1], corpus.starts[1:], strict=True)
    return [[corpus.words[number] for number in corpus.tokens[a:b]] for a, b in cuts]


def shards(folder: Path) -> list[Path]:
    folder.mkdir(exist_ok=True)
    (folder / "a.txt").write_text(TEXT, encoding="utf-8")
    with gzip.open(folder / "b.txt.gz", "wt") as file:
        file.write(MORE)
    with lzma.open(folder / "c.txt.xz", "wt", encoding="utf-8") as file:
        file.write(TEXT)
    return find_shards([str(folder / "*.txt*")])


def test_an_encoded_corpus_holds_the_text(tmp_path: Path) -> None:
    done: list[Path] = []
    corpus = encode(shards(tmp_path / "text"), tmp_path / "run" / "corpus", done.append)
    expected = [*SENTENCES, ["cat", "new"], ["The", "new", "."], *SENTENCES]
    assert read(corpus) == [["<S>", *sentence, "</S>"] for sentence in expected]
    assert corpus.pairs == sum(map(len, expected)) + corpus.sentences
    assert dict(zip(corpus.words, corpus.counts.tolist(), strict=True))["cat"] == 7
    assert corpus.shards == (3, 2, 3)
    assert [path.name for path in done] == ["a.txt", "b.txt.gz", "c.txt.xz"]
    assert corpus.vocabulary(6).words[3:] == ("cat", ".", "The")


def test_only_changed_text_is_encoded_again(tmp_path: Path) -> None:
    files, done = shards(tmp_path / "text"), list[Path]()
    encode(files, tmp_path / "corpus", done.append)
    encode(files, tmp_path / "corpus", done.append)
    assert len(done) == 3
    files[0].write_text("other words\n")
    os.utime(files[0], ns=(1, 1))
    corpus = encode(files, tmp_path / "corpus", done.append)
    assert len(done) == 6 and read(corpus)[0] == ["<S>", "other", "words", "</S>"]


@pytest.mark.parametrize("pattern", [".", "", "/", "text", "text/"])
def test_a_folder_is_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    shards(tmp_path / "text")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TrainingError, match=r"is a folder, expected files .* '.*\*\.txt'"):
        find_shards([pattern])


@pytest.mark.parametrize("pattern", ["text/*.txt", "te**/a*", "**/a.txt", "{}/text/a.txt"])
def test_a_pattern_finds_files_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    shards(tmp_path / "text")
    (tmp_path / "text" / "a.folder").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_shards([pattern.format(tmp_path)]) == [(tmp_path / "text" / "a.txt").resolve()]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"nothing\*: no such file"):
        find_shards([str(tmp_path / "nothing*")])
    cut = tmp_path / "cut.txt.xz"
    cut.write_bytes(lzma.compress(TEXT.encode())[:-20])
    with pytest.raises(TextError, match=r"cut\.txt\.xz, after line 4: cannot be read"):
        list(sentences_of(cut))
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(TrainingError, match="holds no sentence"):
        encode([tmp_path / "empty.txt"], tmp_path / "corpus", lambda _: None)
    assert not (tmp_path / "corpus").exists()


def test_an_empty_shard_is_left_out_with_a_note(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    full = shards(tmp_path / "text")
    for name in ("0.txt", "b.txt"):
        (tmp_path / "text" / name).write_text("\n \n" * (name == "b.txt"))
    files = find_shards([str(tmp_path / "text" / "*.txt*")])

    corpus = encode(files, tmp_path / "corpus", lambda _: None)

    assert [name for name, _, _ in corpus.files] == [path.name for path in full]
    assert "0.txt: holds no sentence" in caplog.text and "b.txt: holds no" in caplog.text
    again = list[Path]()
    encode(files, tmp_path / "corpus", again.append)
    assert not again


def test_a_shard_that_is_not_utf8_is_found_before_one_is_encoded(tmp_path: Path) -> None:
    files, done = shards(tmp_path / "text"), list[Path]()
    (latin := tmp_path / "text" / "latin.txt").write_bytes("naïve".encode("latin-1"))

    with pytest.raises(TextError, match=r"latin\.txt"):
        encode([*files, latin], tmp_path / "corpus", done.append)

    assert not done and not (tmp_path / "corpus").exists()


def test_files_of_the_user_beside_the_encoded_text_are_kept(tmp_path: Path) -> None:
    """`elmo train . --text 'corpus/*'` reads texts in the folder that the run encodes into."""
    files = shards(tmp_path / "corpus")

    encode(files, tmp_path / "corpus", lambda _: None)

    assert find_shards([str(tmp_path / "corpus" / "*.txt*")]) == files
    assert list(sentences_of(files[0])) == SENTENCES


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokens.i32", b"abc"),
        ("tokens.i32", b""),
        ("words.utf8", b"<S>\n"),
        ("lengths.i32", b""),
        *(("corpus.json", content) for content in (b"", b"[]", b'{"shards": [1]}')),
    ],
)
def test_text_whose_corpus_is_damaged_is_encoded_again(
    tmp_path: Path, name: str, content: bytes
) -> None:
    files, folder = shards(tmp_path / "text"), tmp_path / "corpus"
    whole = encode(files, folder, lambda _: None).tokens.tolist()
    (folder / name).write_bytes(content)
    assert Corpus.open(folder) is None
    done: list[Path] = []
    assert encode(files, folder, done.append).tokens.tolist() == whole
    assert done == files


def test_an_encoding_that_was_stopped_begins_anew(tmp_path: Path) -> None:
    files, folder = shards(tmp_path / "text"), tmp_path / "corpus"
    encode(files, folder, lambda _: None)
    os.utime(files[0], ns=(1, 1))

    def stop(path: Path) -> None:
        if path == files[-1]:  # the files of numbers are as long as those of the whole text
            raise InterruptedError

    with pytest.raises(InterruptedError):
        encode(files, folder, stop)

    assert Corpus.open(folder) is None
