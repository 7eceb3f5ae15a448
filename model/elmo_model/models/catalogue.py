"""The models that have names: built-in ones, and published ones with the paths of their files.

A module without torch: the server and the command line resolve names before torch is imported.
"""

import os
from pathlib import Path
from typing import Final

import platformdirs

from elmo_model.models.published import File, Published, load, nlpl_model, nlpl_models

BUILT_IN = {
    "english": "a small English model, trained for this program",
}
"""The models that come with the program: their names, and a few words on each."""

CATALOGUE = {model.name: model for model in load()}
"""The published models by name, without those of the NLPL repository."""

_BUILT_IN_TOKENIZERS = {"english": ("ptb", "b3b9f7a3730f")}
"""The tokenizer and the revision of each built-in model; the language of all is English."""

_SPELLINGS = {name.casefold(): name for name in (*BUILT_IN, *CATALOGUE)}


def canonical(name: str) -> str:
    """Return a model name as it is spelt here, given in any case; other strings unchanged."""
    spelling = _SPELLINGS.get(name.casefold())
    if spelling is None and (model := nlpl_model(name.casefold())) is not None:
        return model.name
    return spelling or name


def published_model(name: str) -> Published | None:
    """Return the published model of this name, in any case; None if there is none."""
    return CATALOGUE.get(canonical(name)) or nlpl_model(name.casefold())


def published_models() -> tuple[Published, ...]:
    """Return every published model that is known by name."""
    return (*CATALOGUE.values(), *nlpl_models())


CACHE: Final = "ELMO_CACHE"
"""The variable of the environment that names the cache folder."""


def cache_folder(chosen: str | Path | None = None) -> Path | None:
    """Return the folder of downloaded models: the one that is chosen, or that of the user.

    None where none is chosen and the user has no home.
    """
    if chosen:
        return Path(chosen)
    try:
        return platformdirs.user_cache_path("elmo-serve")
    except RuntimeError:  # a user without a home, as in a container
        return None


def is_address(source: object) -> bool:
    """Tell whether a source is a URL."""
    return str(source).startswith(("http://", "https://"))


def published_pair(options: str, weights: str) -> tuple[Published, File, File] | None:
    """Return the published model that has its pair at two URLs, and both files.

    Each file may be named by any of its addresses. None where they are not of one model.
    """
    for model in CATALOGUE.values():
        first = [file for file in model.files if options in file.urls()]
        second = [file for file in model.files if weights in file.urls() and file not in first]
        if first and second:
            return model, first[0], second[0]
    return None


def not_published(options: object, weights: object) -> str:
    """Return the error message for URLs of no published pair."""
    return (
        f"{options} and {weights}: expected both addresses of one published model; "
        f"`elmo models` lists them, and `elmo download NAME` fetches one"
    )


def tokenization(name_or_path: str, known_as: str = "", revision: str = "") -> tuple[str, str]:
    """Return the tokenizer and the language of a model whose checkpoint does not state them.

    `known_as` and `revision` are those of the checkpoint. A built-in model is known by its name as
    the user gives it, or by its revision: anybody may call a model of their own `english`. A
    published one is known by its name in the checkpoint, or by its folder in the cache, which is
    the last part of the path or, for a published file, the part before it. Any other model has
    `("moses", "en")`.
    """
    for name, (tokenizer, own) in _BUILT_IN_TOKENIZERS.items():
        if canonical(name_or_path) == name or revision == own:
            return tokenizer, "en"
    *_, folder, last = ("", "", *Path(name_or_path).parts)
    is_file = last.endswith((".hdf5", ".json", ".zip", ".gz", ".tgz"))
    for each in (known_as, name_or_path, folder if is_file else last):
        if (model := published_model(each)) is not None:
            return model.tokenizer, model.language
    return "moses", "en"


def path_fault(path: str) -> str | None:
    """Return the error message for a path that is missing, an empty folder or cannot be looked up.

    None: there is something. `Path.exists` does not do: before Python 3.14 it raises
    PermissionError below a folder that this user may not search.
    """
    try:
        os.stat(path)  # noqa: PTH116 - a string, as the message shows it
        if os.path.isdir(path) and not os.listdir(path):  # noqa: PTH112, PTH208
            return f"{path}: is an empty folder, expected a checkpoint"
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a null character
        return missing(path)
    except OSError as error:
        return f"{path}: cannot be read: {error.strerror}"
    return None


def missing(name: str) -> str:
    """Return the error message for a path that does not exist, which may be meant as a name.

    Built-in names and those of published models in the cache are resolved before
    (`elmo_serve.models.download.locate`).
    """
    fault = f"{name}: does not exist, expected a checkpoint"
    if (model := published_model(name)) is not None:
        return f"{fault}; `elmo download {model.name}` fetches it"
    return f"{fault}, or a name that `elmo models` lists"
