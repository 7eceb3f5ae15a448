"""Modules of the page without a document, run by Node.js."""

import base64
import json
import shutil
import subprocess
from typing import Any

import pytest

from elmo_serve.http.routes.page import FOLDER as STATIC

ENGLISH = {"format": "allennlp", "tokenizer": "ptb", "language": "en"}


def run(module: str, expression: str, *given: object) -> Any:
    """Return the value of an expression over the names of a `module` and the list `given`."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not installed: the modules of the page are not run")
    code = base64.b64encode((STATIC / module).read_bytes()).decode()
    script = (
        f"import('data:text/javascript;base64,{code}').then((page) => {{"
        f"const given = {json.dumps(given)};"
        f"console.log(JSON.stringify({expression})); }});"
    )
    done = subprocess.run([node, "-e", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("sentences", "word", "first"),
    [
        (["My bank is a bank .", "It lends ."], None, "bank"),
        (["My bank charged me a fee .", "The river banks flooded ."], None, "banks"),
        (["We went home .", "Cats slept here ."], None, "slept"),
        (["The end .", "The river ."], None, "The"),
        (["play the play", "the notes"], "notes", "notes"),
        (["... !", "... !"], None, "..."),
        (["私 は 川 。", "銀行 。"], None, "銀行"),
    ],
    ids=["recurs", "another form", "longest", "short", "of an example", "no word", "Japanese"],
)
def test_the_page_begins_with_a_word(sentences: list[str], word: str | None, first: str) -> None:
    tokens = [sentence.split() for sentence in sentences]
    expression = (
        "(places => places[page.firstPlace(places, given[1])].word)(page.placesOf(given[0]))"
    )

    assert run("places.js", expression, tokens, word) == first


@pytest.mark.parametrize(
    ("text", "tokenizer", "info", "said"),
    [
        ("The bank , 2024 : Ärger über café", "ptb", ENGLISH, []),
        ("東京 is a city of Japan", "ptb", ENGLISH, []),
        ("私は川の銀行に座った。", "ptb", ENGLISH, ["reads English words"]),
        ("جلسنا على ضفة النهر .", "ptb", ENGLISH, ["reads English words"]),
        ("Мы сидели", "moses", {**ENGLISH, "language": "ru"}, []),
        ("We sat", "moses", {**ENGLISH, "language": "ru"}, ["reads Russian words"]),
        ("私", "moses", {**ENGLISH, "language": "ja"}, []),
        ("a", "moses", {**ENGLISH, "language": "no code"}, []),
        ("B A N K", "characters", ENGLISH, ["one character"]),
        ("M E T", "characters", {**ENGLISH, "tokenizer": "characters"}, []),
        ("a", "ptb", {**ENGLISH, "format": "random"}, ["random"]),
        ("... 1 !", "ptb", ENGLISH, []),
    ],
)
def test_a_text_that_the_model_cannot_read_is_named(
    text: str, tokenizer: str, info: dict[str, str], said: list[str]
) -> None:
    found = run("reading.js", "page.doubts(...given)", [text.split()], tokenizer, info)

    assert len(found) == len(said)
    assert all(part in sentence for part, sentence in zip(said, found, strict=True))


@pytest.mark.parametrize(
    ("text", "direction"),
    [("The bank .", "ltr"), ("جلسنا على", "rtl"), ("« בנק » x", "rtl"), ("1 2", "ltr")],
)
def test_a_sentence_is_shown_in_the_direction_of_its_script(text: str, direction: str) -> None:
    assert run("reading.js", "page.directionOf(given[0])", text.split()) == direction


def test_equal_shares_read_alike() -> None:
    assert run("numbers.js", "given[0].map(page.percent)", [1 / 3] * 3) == ["33.3 %"] * 3


@pytest.mark.parametrize(
    ("status", "seconds", "loads"),
    [(503, 1, True), (503, 60, False), (503, None, False), (401, 1, False)],
)
def test_a_model_that_is_loaded_is_waited_for(
    status: int, seconds: int | None, loads: bool
) -> None:
    refusal = {"status": status, "retrySeconds": seconds}

    assert run("refusal.js", "page.isLoading(given[0])", refusal) is loads
