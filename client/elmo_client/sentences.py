"""Checks of sentences before they are embedded: the mistakes that newcomers make, explained."""

from collections.abc import Iterable, Sequence, Sized

from elmo_client.errors import CannotSend

_SPLIT = "for text whose tokens stand between spaces, use text.split()"


def refuse_text(sentences: object) -> None:
    """Raise CannotSend for a string in the place of a list of sentences."""
    if isinstance(sentences, str | bytes):
        raise CannotSend(
            f"sentences is the string {sentences!r:.60}; expected a list of sentences, each a list "
            f"of tokens: {_SPLIT}"
        )


def check_sentence(sentence: Sequence[str], number: int | None = None) -> None:
    """Raise CannotSend for anything other than a list (or tuple, or array) of strings.

    `number` is its place in the call, counted from 0; None if it is the only one.
    """
    name = "sentence" if number is None else f"sentence {number}"
    if isinstance(sentence, str | bytes):
        raise CannotSend(f"{name} is the string {sentence!r:.60}; expected its tokens: {_SPLIT}")
    # An iterator, which has no length, would be empty after this check.
    if not isinstance(sentence, Iterable) or not isinstance(sentence, Sized):
        raise CannotSend(f"{name} is {sentence!r:.60}, not a list of tokens")
    for place, token in enumerate(sentence):
        if not isinstance(token, str):
            raise CannotSend(f"token {place} of {name} is {token!r:.60}, not a string")
