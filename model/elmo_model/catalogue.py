"""The models that have names: built-in ones, and published ones with the paths of their files.

A module without torch: the server and the command line resolve names before torch is imported.
"""

import difflib
import os
from dataclasses import replace
from pathlib import Path

from elmo_model import nlpl
from elmo_model.published import File, Published

# Numbers of parameters of the published sizes. A file of weights has four bytes for each.
SMALL, MEDIUM, ORIGINAL = 13_593_296, 28_027_728, 93_600_848

_OVERHEAD = 1 << 20  # bytes that HDF5 may add to the weights; in `original` it adds 31,400
_MAX_OPTIONS = 1 << 20  # bytes
_MAX_MATRIX = 64 << 20  # bytes
_MOST = 4 << 30  # bytes of weights whose size is not published
_LEAST_ARCHIVE = 1 << 10  # bytes; its kind is seen at its first bytes

_ORIGINAL = "2x4096_512_2048cnn_2xhighway"
_HUGGING_FACE = "https://huggingface.co/lysandre/elmo/resolve/main"


def _released(name: str, text: str, shape: str, parameters: int) -> Published:
    prefix = f"elmo/{shape}/elmo_{shape}"
    files = (_options(f"{prefix}_options.json"), _weights(f"{prefix}_weights.hdf5", parameters))
    return Published(name, text, files, size=4 * parameters)


def _aligned(language: str, text: str) -> Published:
    prefix = f"multilingual_elmo/{language}"
    return Published(
        f"multilingual-{language}",
        f"{text}, aligned with the other multilingual models",
        (
            _options("multilingual_elmo/options262.json"),
            _weights(f"{prefix}_weights.hdf5", ORIGINAL, least=SMALL),  # the size is not published
            File(f"{prefix}_best_mapping.pth", 1, _MAX_MATRIX),
        ),
        language=language,
    )


def _contributed(name: str, text: str, options: str, weights: str, language: str) -> Published:
    """Return a model in AllenNLP's bucket whose size is not published."""
    files = (_options(options), _weights(weights, ORIGINAL, least=SMALL))
    return Published(name, text, files, language=language)


def _elsewhere(name: str, text: str, language: str, address: str) -> Published:
    """Return a model of two files, `options.json` and `weights.hdf5`, below an address."""
    tokenizer = "whitespace" if language in nlpl.UNSPACED else "moses"
    path = address.partition("://")[2]
    files = (
        File(f"{path}/options.json", 2, _MAX_OPTIONS, (f"{address}/options.json",)),
        File(f"{path}/weights.hdf5", 4 * SMALL, _MOST, (f"{address}/weights.hdf5",)),
    )
    return Published(name, text, files, tokenizer, language)


def _archive(
    name: str,
    text: str,
    language: str,
    *addresses: str,
    tokenizer: str = "moses",
    size: int | None = None,
) -> Published:
    """Return a model in an archive, which lies at each of the addresses."""
    path = addresses[0].partition("://")[2]
    file = File(path, _LEAST_ARCHIVE, _MOST, addresses)
    return Published(name, text, (file,), tokenizer, language, size)


def _options(path: str) -> File:
    return File(path, 2, _MAX_OPTIONS)


def _weights(path: str, parameters: int, least: int | None = None) -> File:
    return File(path, 4 * (least or parameters), 4 * parameters + _OVERHEAD)


def _with_second_addresses(model: Published, address: str) -> Published:
    """Return a model in AllenNLP's bucket that also lies, as two files, below `address`."""
    names = ("options.json", "weights.hdf5")
    files = (
        replace(file, addresses=(*file.urls(), f"{address}/{name}"))
        for file, name in zip(model.files, names, strict=True)
    )
    return replace(model, files=tuple(files))


def _german() -> Published:
    model = _elsewhere(
        "german",
        "German",
        "de",
        "https://github.com/t-systems-on-site-services-gmbh/german-elmo-model/releases/download/files_1",
    )
    digests = (
        "04afb8bc77acf5e65633ced2efc1e91d05332e89",
        "9084adab3eefaed4f07da7331217fcb873417add",
    )
    files = (
        replace(file, digests=(("sha1", digest),))
        for file, digest in zip(model.files, digests, strict=True)
    )
    return replace(model, files=tuple(files))


_PUBMED = f"elmo/contributed/pubmed/elmo_{_ORIGINAL}"
_PORTUGUESE = "elmo/contributed/pt"
_SEQVEC = "rostlab.org/~deepppi/seqvec.zip"
_DEEPPAVLOV = "http://files.deeppavlov.ai/deeppavlov_data"

BUILT_IN = {
    "english": "a small English model, trained for this program",
    "random-small": "the published small shape with random weights",
}
"""The models that come with the program: their names, and a few words on each."""

CATALOGUE = {
    model.name: model
    for model in (
        _released("small", "1 Billion Word Benchmark", "2x1024_128_2048cnn_1xhighway", SMALL),
        _released("medium", "1 Billion Word Benchmark", "2x2048_256_2048cnn_1xhighway", MEDIUM),
        _with_second_addresses(
            _released("original", "1 Billion Word Benchmark", _ORIGINAL, ORIGINAL), _HUGGING_FACE
        ),
        _released("5.5b", "Wikipedia and news crawl", f"{_ORIGINAL}_5.5B", ORIGINAL),
        Published(
            "pubmed",
            "PubMed, 797 million tokens of abstracts",
            (
                _options(f"{_PUBMED}_options.json"),
                _weights(f"{_PUBMED}_weights_PubMed_only.hdf5", ORIGINAL),
            ),
            size=4 * ORIGINAL,
        ),
        _contributed(
            "portuguese",
            "Portuguese, an older model",
            f"{_PORTUGUESE}/elmo_pt_options.json",
            f"{_PORTUGUESE}/elmo_pt_weights.hdf5",
            "pt",
        ),
        _contributed(
            "portuguese-wikipedia",
            "Portuguese Wikipedia",
            f"{_PORTUGUESE}/wikipedia/options.json",
            f"{_PORTUGUESE}/wikipedia/elmo_pt_weights.hdf5",
            "pt",
        ),
        _contributed(
            "portuguese-brwac",
            "brWaC, the Brazilian web",
            f"{_PORTUGUESE}/brwac/options.json",
            f"{_PORTUGUESE}/brwac/elmo_pt_weights_dgx1.hdf5",
            "pt",
        ),
        _aligned("en", "English"),
        _aligned("es", "Spanish"),
        _aligned("fr", "French"),
        _aligned("it", "Italian"),
        _aligned("pt", "Portuguese"),
        _aligned("sv", "Swedish"),
        _aligned("de", "German"),
        _german(),
        _elsewhere(
            "japanese", "Japanese", "ja", "https://exawizardsallenlp.blob.core.windows.net/data"
        ),
        _elsewhere("basque", "Basque", "eu", "https://schweter.eu/cloud/eu-elmo"),
        _archive("french", "OSCAR", "fr", "https://traces1.inria.fr/oscar/files/models/cc/fr.zip"),
        _archive(
            "russian-wiki",
            "Russian Wikipedia",
            "ru",
            f"{_DEEPPAVLOV}/elmo_ru-wiki_600k_steps.tar.gz",
        ),
        _archive(
            "russian-news",
            "WMT 2011 to 2016 news",
            "ru",
            f"{_DEEPPAVLOV}/elmo_ru-news_wmt11-16_1.5M_steps.tar.gz",
        ),
        _archive(
            "russian-twitter",
            "Twitter, 2013 to 2018",
            "ru",
            f"{_DEEPPAVLOV}/elmo_ru-twitter_2013-01_2018-04_600k_steps.tar.gz",
        ),
        _archive(
            "seqvec",
            "UniRef50, protein sequences",
            "",
            f"https://{_SEQVEC}",
            "https://lbs.cent.uw.edu.pl/static/files/seqvec.zip",
            f"https://web.archive.org/web/20220324054637/https://{_SEQVEC}",
            tokenizer="characters",
            size=374_434_776,
        ),
    )
}
"""The published models by name, without those of the NLPL repository (`elmo_model.nlpl`)."""

_BUILT_IN_TOKENIZERS = {"english": "ptb"}

_SPELLINGS = {name.casefold(): name for name in (*BUILT_IN, *CATALOGUE)}


def canonical(name: str) -> str:
    """Return a model name as it is spelt here, given in any case; other strings unchanged."""
    found = _SPELLINGS.get(name.casefold())
    if found is None and (model := nlpl.model(name.casefold())) is not None:
        return model.name
    return found or name


def published_model(name: str) -> Published | None:
    """Return the published model of this name, in any case; None if there is none."""
    return CATALOGUE.get(canonical(name)) or nlpl.model(name.casefold())


def published_models() -> tuple[Published, ...]:
    """Return every published model that is known by name."""
    return (*CATALOGUE.values(), *nlpl.known())


def tokenization(name: str, path: str = "") -> tuple[str, str]:
    """Return the tokenizer and the language of a model: `("moses", "en")` if it is unknown.

    A model is known by the name in its checkpoint, or by its folder in the cache, which is the last
    part of its path or, for a model in one archive, the part before it.
    """
    parts = Path(path).parts
    folders = parts[-2:-1] if parts and "." in parts[-1] else parts[-1:]
    for each in (name, *folders):
        if (model := published_model(each)) is not None:
            return model.tokenizer, model.language
        if (tokenizer := _BUILT_IN_TOKENIZERS.get(canonical(each))) is not None:
            return tokenizer, "en"
    return "moses", "en"


def path_fault(path: str) -> str | None:
    """Return the error message for a path that is missing or cannot be looked up; None: it exists.

    `Path.exists` does not do: before Python 3.14 it raises PermissionError below a folder that this
    user may not search.
    """
    try:
        os.stat(path)  # noqa: PTH116 - a string, as the message shows it
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a null character
        return missing(path)
    except OSError as error:
        return f"{path}: cannot be read: {error.strerror}"
    return None


def missing(name: str) -> str:
    """Return the error message for a path that does not exist; it explains names and misspellings.

    The caller takes paths. A name that reaches it was not resolved: built-in names are taken by
    `elmo_model.pretrained.open_model`, published names by `elmo_serve.model_cache.locate`.
    """
    known = canonical(name)
    if known in BUILT_IN:
        return (
            f"{name}: does not exist, expected the path of a checkpoint; the built-in model of "
            f"this name is opened by elmo_model.pretrained.open_model"
        )
    if published_model(name) is not None:
        return (
            f"{name}: does not exist, expected the path of a checkpoint; the published model of "
            f"this name is fetched by `elmo download {known}`, which prints its path"
        )
    if "/" in name:  # a path, and no misspelt name
        return f"{name}: does not exist, expected a checkpoint"
    close = difflib.get_close_matches(name.casefold(), _SPELLINGS, n=1)
    meant = f"; did you mean {_SPELLINGS[close[0]]}?" if close else ","
    return (
        f"{name}: does not exist{meant} expected the path of a checkpoint, or one of "
        f"{', '.join(_SPELLINGS.values())}"
    )
