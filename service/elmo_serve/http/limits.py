"""The limits of one request, which follow from the settings."""

from dataclasses import dataclass

from elmo_serve.errors import FieldError, TooLarge


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Largest number of sentences of a request, and of tokens of a sentence."""

    sentences: int
    sentence_tokens: int

    def check_count(self, count: int, unit: str = "sentences") -> None:
        """Raise TooLarge for more sentences, or texts, than a request may have."""
        if count > self.sentences:
            raise TooLarge(
                f"The request holds {count} {unit} and at most {self.sentences} are allowed "
                "(ELMO_MAX_REQUEST_SENTENCES)."
            )

    def too_long(self, index: int, tokens: int, place: str) -> TooLarge:
        """Return the error for a sentence of too many tokens."""
        detail = (
            f"Sentence {index} holds {tokens} tokens and at most {self.sentence_tokens} are "
            "allowed (ELMO_MAX_SENTENCE_TOKENS)."
        )
        return TooLarge(detail, errors=[FieldError(place, detail)])
