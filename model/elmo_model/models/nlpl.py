"""The models of the NLPL repository, whose addresses follow one rule: `nlpl:209`, `nlpl:11/144`.

`http://vectors.nlpl.eu/repository/20/ID.zip` holds a model of bilm-tf, and `.../11/ID.zip` one of
ELMoForManyLangs for the CoNLL 2018 shared task. `efml:nl` is the latter by its language.
"""

import re

from elmo_model.models.published import File, Published

_RULE = re.compile(r"nlpl[:-](?:(11|20)[/-])?([1-9][0-9]{0,5})")
_MIN_BYTES, _MAX_BYTES = 1 << 10, 4 << 30  # bytes of a zip
_LICENCE = "CC BY 4.0"

TEXTS = {
    195: ("ru", "Wikipedia and the Russian National Corpus, tokens"),
    196: ("ru", "Wikipedia and the Russian National Corpus, lemmas"),
    199: ("ru", "Taiga, lemmas"),
    201: ("de", "German"),
    202: ("sv", "Swedish"),
    203: ("la", "Latin"),
    209: ("en", "English"),
    210: ("nb", "Norwegian Bokmål, lemmas"),
    211: ("nb", "Norwegian Bokmål, tokens"),
    212: ("ru", "Araneum, lemmas"),
    217: ("no", "NorELMo30, Norwegian"),
    218: ("no", "NorELMo100, Norwegian"),
    219: ("en", "English"),
}
"""The models of bilm-tf that are known, by their number: language and training text."""

LANGUAGES = (
    *("ar", "bg", "ca", "cs", "cu", "da", "de", "el", "en", "es", "et", "eu", "fa", "fi", "fr"),
    *("ga", "gl", "grc", "he", "hi", "hr", "hu", "id", "it", "ja", "ko", "la", "lv", "nl", "nb"),
    *("nn", "pl", "pt", "ro", "ru", "sk", "sl", "sv", "tr", "ug", "uk", "ur", "vi", "zh"),
)
"""The languages of ELMoForManyLangs in the order of their numbers, from 136 on. `zh` is in
traditional characters."""

UNSPACED = ("ja", "zh")
"""Languages without spaces between words, which `moses` does not find: their text comes split."""

_FIRST = 136


def model(name: str) -> Published | None:
    """Return the model of a name in lower case: by number, by number and set, or `efml:LANGUAGE`.

    A name may also be that of its folder in the cache. Any number is taken: the repository grows.
    """
    prefix, _, language = name.replace("efml-", "efml:").partition(":")
    if prefix == "efml" and language in LANGUAGES:
        return _model("11", _FIRST + LANGUAGES.index(language))
    if (match := _RULE.fullmatch(name)) is None:
        return None
    return _model(match[1] or "20", int(match[2]))


def known() -> tuple[Published, ...]:
    """Return the models of the repository whose languages are known."""
    many = (_model("11", _FIRST + place) for place in range(len(LANGUAGES)))
    return (*(_model("20", number) for number in TEXTS), *many)


def _model(collection: str, number: int) -> Published:
    path = f"vectors.nlpl.eu/repository/{collection}/{number}.zip"
    file = File(path, _MIN_BYTES, _MAX_BYTES, (f"http://{path}",))
    name, language, text = f"nlpl:{number}", "en", "NLPL repository"
    if collection == "11":
        name, text = f"nlpl:11/{number}", "NLPL repository, CoNLL 2018"
        if 0 <= number - _FIRST < len(LANGUAGES):
            language = LANGUAGES[number - _FIRST]
            name, text = f"efml:{language}", f"ELMoForManyLangs {number}, CoNLL 2018"
    elif number in TEXTS:
        language, text = TEXTS[number]
    tokenizer = "whitespace" if language in UNSPACED else "moses"
    return Published(name, text, (file,), tokenizer, language, licence=_LICENCE)
