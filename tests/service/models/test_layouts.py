"""Each layout of published files, fetched from a server on loopback and opened.

Nothing is known of the real addresses: these tests ask none of them.
"""

import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from elmo_model.models.catalogue import CATALOGUE, published_model
from elmo_model.models.published import File, Published
from elmo_serve.models.checks import DownloadError, check_digests
from elmo_serve.models.download import CacheSettings, fetch
from tests.support.checkpoints import small_size_pair, write_pair
from tests.support.command_line import elmo
from tests.support.download_server import (
    MODEL,
    OPTIONS,
    OPTIONS_PATH,
    WEIGHTS,
    WEIGHTS_PATH,
    Mirror,
)
from tests.support.golden import GOLDEN


def zipped(folder: Path, prefix: str = "") -> bytes:
    """Return the files of a folder as a zip, below `prefix`."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            archive.write(file, f"{prefix}{file.relative_to(folder)}")
    return data.getvalue()


def norwegian(folder: Path) -> bytes:
    """Return a zip of the repository: `model.hdf5`, `options.json` and a description."""
    write_pair(folder, weights_name="model.hdf5")
    (folder / "meta.json").write_text('{"algorithm": {"name": "Embeddings from Language Models"}}')
    return zipped(folder)


def protein(folder: Path) -> bytes:
    return zipped(write_pair(folder), "uniref50_v2/")


def french(folder: Path) -> bytes:
    options, weights = "elmo_fr_020_options.json", "elmo_fr_020_weights.hdf5"
    return zipped(write_pair(folder, options_name=options, weights_name=weights))


def many_languages(_: Path) -> bytes:
    return zipped(GOLDEN / "elmoformanylangs" / "word_and_char")


def hub_module(_: Path) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        archive.add(GOLDEN / "tensorflow" / "tf_hub", ".")
    return data.getvalue()


@pytest.mark.parametrize(
    ("name", "make", "format_"),
    [
        ("nlpl:217", norwegian, "allennlp"),
        ("nlpl:4711", norwegian, "allennlp"),
        ("efml:nl", many_languages, "elmoformanylangs"),
        ("nlpl:11/164", many_languages, "elmoformanylangs"),
        ("french", french, "allennlp"),
        ("russian-news", hub_module, "tf-hub"),
    ],
)
def test_an_archive_is_fetched_and_read_in_place(
    mirror: Mirror, tmp_path: Path, name: str, make: Callable[[Path], bytes], format_: str
) -> None:
    model = published_model(name)
    assert model is not None
    (file,) = model.files
    mirror.files[f"/mirror/{file.path}"] = make(tmp_path / "made")
    places = {"ELMO_CACHE": str(tmp_path / "cache"), "ELMO_MIRROR": mirror.address}

    path = elmo("download", name, **places)
    facts = elmo("info", name, "--json", **places, ELMO_OFFLINE="1")

    assert path.stdout == f"{tmp_path / 'cache' / model.folder / file.name}\n", path.output
    assert json.loads(facts.stdout)["format"] == format_
    assert len(mirror.requests) == 1


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def test_the_members_of_an_archive_are_compared_with_their_published_checksums(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, real = tmp_path / "made", CATALOGUE["seqvec"]
    (file,) = real.files
    mirror.files[f"/mirror/{file.path}"] = protein(pair)
    places = {"ELMO_CACHE": str(tmp_path / "cache"), "ELMO_MIRROR": mirror.address}

    refused = elmo("download", "seqvec", **places)
    members = tuple(
        replace(member, md5=md5((pair / member.name).read_bytes())) for member in file.members
    )
    made_up = replace(real, files=(replace(file, members=members),))
    monkeypatch.setitem(CATALOGUE, "seqvec", made_up)
    path = elmo("download", "seqvec", **places)
    facts = elmo("info", "seqvec", "--json", **places, ELMO_OFFLINE="1")

    assert "seqvec.zip:uniref50_v2/options.json: its MD5 is" in refused.stderr
    assert "expected cede355187778de3ac302a83c761f5f9 as published" in refused.stderr
    assert path.stdout.endswith("seqvec.zip\n"), path.output
    assert json.loads(facts.stdout)["format"] == "allennlp"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-100], "is not a whole zip archive"),
        (lambda data: data.replace(b"weights.hdf5", b"weights.hdf6"), "holds no weights.hdf5"),
    ],
)
def test_an_archive_that_was_cut_off_is_named(
    tmp_path: Path, damage: Callable[[bytes], bytes], message: str
) -> None:
    (file,) = CATALOGUE["seqvec"].files
    made = write_pair(tmp_path / "made")
    path = tmp_path / "seqvec.zip"
    path.write_bytes(damage(zipped(made, "uniref50_v2/")))
    members = tuple(
        replace(member, md5=md5((made / member.name).read_bytes())) for member in file.members
    )

    with pytest.raises(DownloadError, match=message):
        check_digests(path, replace(file, members=members), "seqvec.zip")


@pytest.mark.parametrize("name", ["basque", "multilingual-de"])
def test_two_files_and_a_matrix_are_fetched_and_read(
    mirror: Mirror, tmp_path: Path, name: str
) -> None:
    """Files of another host lie below its name; multilingual options have a name of their own."""
    pair = tmp_path / "pair"
    small_size_pair(pair)
    torch.save(torch.eye(256), pair / "matrix")
    made, files = ("options.json", "weights.hdf5", "matrix"), CATALOGUE[name].files
    for file, own in zip(files, made, strict=False):
        mirror.files[f"/mirror/{file.path}"] = (pair / own).read_bytes()
    places = {"ELMO_CACHE": str(tmp_path / "cache"), "ELMO_MIRROR": mirror.address}

    facts = elmo("info", name, "--json", **places)

    found = json.loads(facts.stdout)
    assert (found["name"], found["format"]) == (name, "allennlp"), facts.output
    if name == "basque":
        assert mirror.requests[0] == "/mirror/schweter.eu/cloud/eu-elmo/options.json"


@pytest.fixture
def elsewhere(mirror: Mirror) -> Iterator[Published]:
    """The tiny model at two addresses each; the first one has nothing."""
    base = mirror.address.rstrip("/")
    files = [
        File(
            file.path,
            file.min_bytes,
            file.max_bytes,
            (f"{base}/gone/{file.name}", f"{base}/{file.path}"),
        )
        for file in MODEL.files
    ]
    yield Published("tiny", "nothing", tuple(files))


def get(model: Published, cache: Path) -> Path:
    return fetch(model, CacheSettings(cache, pause_seconds=0.0), lambda *_: None)


def test_a_second_address_is_tried(mirror: Mirror, elsewhere: Published, tmp_path: Path) -> None:
    folder = get(elsewhere, tmp_path)

    assert (folder / "elmo_tiny_weights.hdf5").read_bytes() == WEIGHTS
    assert mirror.requests == [
        "/mirror/gone/elmo_tiny_options.json",
        OPTIONS_PATH,
        "/mirror/gone/elmo_tiny_weights.hdf5",
        WEIGHTS_PATH,
    ]


def test_a_page_at_the_first_address_leads_to_the_second(
    mirror: Mirror, elsewhere: Published, tmp_path: Path
) -> None:
    mirror.files["/mirror/gone/elmo_tiny_options.json"] = b"<html>moved</html>"

    assert (get(elsewhere, tmp_path) / "elmo_tiny_options.json").read_bytes() == OPTIONS


def test_where_no_address_has_the_file_each_is_named(
    mirror: Mirror, elsewhere: Published, tmp_path: Path
) -> None:
    mirror.files.clear()

    with pytest.raises(DownloadError) as error:
        get(elsewhere, tmp_path)

    for url in elsewhere.files[0].addresses:
        assert f"{url}: the server answered 404" in str(error.value)


def with_digest(digest: str) -> Published:
    options, weights = MODEL.files
    named = File(weights.path, weights.min_bytes, weights.max_bytes, (), (("sha1", digest),))
    return Published("tiny", "nothing", (options, named))


def test_a_published_checksum_is_compared(mirror: Mirror, tmp_path: Path) -> None:
    settings = CacheSettings(tmp_path / "right", mirror.address, pause_seconds=0.0)
    right = hashlib.sha1(WEIGHTS, usedforsecurity=False).hexdigest()

    fetch(with_digest(right), settings, lambda *_: None)
    with pytest.raises(DownloadError, match=f"SHA1 is {right}"):
        fetch(
            with_digest("0" * 40),
            CacheSettings(tmp_path / "wrong", mirror.address, pause_seconds=0.0),
            lambda *_: None,
        )

    kept = {path.suffix for path in (tmp_path / "wrong" / "tiny").iterdir()}
    assert not kept & {".hdf5", ".part"}


def test_the_user_agent_is_not_that_of_a_library(
    mirror: Mirror, download: Callable[..., Path], tmp_path: Path
) -> None:
    download(tmp_path)

    assert all(agent.startswith("Mozilla/5.0 ") for agent in mirror.agents)
    assert all("elmo-serve" in agent for agent in mirror.agents)
