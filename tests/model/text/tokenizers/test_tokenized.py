"""The result of a tokenizer: tokens and their places."""

from elmo_model.text.tokenizers.tokenized import Tokenized


def test_tokens_are_the_text_at_the_offsets() -> None:
    found = Tokenized.of("a 👩\u200d👧 é", [(0, 1), (2, 5), (6, 7)])

    assert found.tokens == ("a", "👩\u200d👧", "é")
    assert found.offsets == ((0, 1), (2, 5), (6, 7))
