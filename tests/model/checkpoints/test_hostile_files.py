"""Files that would fill memory or take hours: each is refused in one line, in little memory."""

import bz2
import gzip
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo_model.checkpoints import CheckpointError, read
from tests.support.checkpoint_formats import table, variables, write_bundle
from tests.support.checkpoints import change_options, write_pair
from tests.support.files import write_tar

MANY = 10_001


def tar_bomb(folder: Path) -> Path:
    return write_tar(folder / "a.tar.gz", ("weights.th", bytes(20_000_000)))


def headers(folder: Path) -> Path:
    """A tar of too many empty files."""
    path = folder / "a.tar.gz"
    path.write_bytes(gzip.compress(tarfile.TarInfo("a").tobuf() * MANY, 1))
    return path


def sparse(folder: Path) -> Path:
    """A GNU sparse member: 104 bytes that declare 2 GB of zeros."""
    header = bytearray(tarfile.TarInfo("weights.th").tobuf(tarfile.GNU_FORMAT))
    header[156:157] = tarfile.GNUTYPE_SPARSE
    # one piece of data, of no bytes, at the end: the rest is a hole
    header[386:410] = b"%011o\0%011o\0" % (2_000_000_000, 0)
    header[483:495] = b"%011o\0" % 2_000_000_000
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    path = folder / "a.tar.gz"
    path.write_bytes(gzip.compress(bytes(header) + bytes(1024)))
    return path


def zip_of(entries: int = 1, content: bytes = b"tiny") -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        pair = write_pair(folder / "pair")
        with zipfile.ZipFile(folder / "a.zip", "w") as archive:
            for number in range(entries):
                archive.write(pair / "options.json", f"{number or ''}options.json")
            archive.writestr("weights.hdf5", content)
        return folder / "a.zip"

    return write


def torch_bomb(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "a.th", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", bytes(10_000_000))
    return folder / "a.th"


def huge(folder: Path) -> Path:
    """A dataset of no bytes that declares 128 MB."""
    pair = write_pair(folder / "pair")
    change_options(pair, "lstm", dim=1 << 20)
    name = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"
    with h5py.File(pair / "weights.hdf5", "r+") as file:
        del file[name]
        file.create_dataset(name, (8, 1 << 22), dtype="f4")
    return pair


def lying_zip(packed: int) -> Callable[[Path], Path]:
    """A zip whose directory says of its last file that so many bytes unpack to 2 GB."""

    def write(folder: Path) -> Path:
        path = zip_of()(folder)
        content = bytearray(path.read_bytes())
        place = content.rindex(b"PK\x01\x02") + 20
        content[place : place + 8] = struct.pack("<II", packed, 0x7FFFFFFF)
        path.write_bytes(content)
        return path

    return write


def bzip2(folder: Path) -> Path:
    """A few bytes of bzip2 whose 50 MB come out at one go; the directory says that they are few."""
    path = zip_of(content=bz2.compress(bytes(50_000_000)))(folder)
    content = path.read_bytes()
    for magic, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        start = content.rindex(magic) + place
        content = content[:start] + struct.pack("<H", zipfile.ZIP_BZIP2) + content[start + 2 :]
    path.write_bytes(content)
    return path


def bundle(pairs: list[tuple[bytes, bytes]]) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        pair = write_pair(folder / "pair")
        path = write_bundle(folder / "model.ckpt-7", variables(pair))
        (folder / "options.json").write_bytes((pair / "options.json").read_bytes())
        path.write_bytes(table(pairs))
        return path

    return write


def nested(folder: Path) -> Path:
    pair = write_pair(folder / "pair")
    with h5py.File(pair / "weights.hdf5", "r+") as file:
        file["/".join("a" * 200)] = np.zeros(1, np.float32)
    return pair


HOSTILE: dict[str, tuple[Callable[[Path], Path], str]] = {
    "sparse tar": (sparse, "sparse"),
    "tar bomb": (tar_bomb, "unpacks to more than"),
    "tar of many": (headers, "10,000"),
    "zip of many": (zip_of(MANY), "10,000"),
    "zip bomb": (lying_zip(4), "unpacks to 2,147,483,647 bytes from 4,"),
    "zip bomb, both sizes wrong": (lying_zip(40_000_000), "unpacks to 2,147,483,647 bytes"),
    "torch bomb": (torch_bomb, "unpacks to 10,000,000 bytes"),
    "huge dataset": (huge, "stores 0 bytes"),
    "bzip2": (bzip2, "method 12"),
    "long keys": (bundle([(b"k" * 4097, b"")]), "4,096"),
    "many keys": (bundle([(b"%05d" % n, b"") for n in range(MANY)]), "10,000"),
    "nested HDF5": (nested, "below 32 groups"),
}


@pytest.mark.parametrize(("write", "word"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_file_is_refused_in_little_memory(
    tmp_path: Path, write: Callable[[Path], Path], word: str
) -> None:
    path = write(tmp_path)
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match=word) as refusal:
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()
    assert "\n" not in str(refusal.value) and str(tmp_path) in str(refusal.value)
