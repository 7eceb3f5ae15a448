"""npz: an uncompressed archive whose checksums do not hold up the event loop."""

import io
import zipfile

import httpx
import numpy as np

from elmo_serve.http.media_types import npz
from tests.support.embeddings import arrays, embeddings

NPZ = npz.ENCODER.media_type


def test_npz_is_not_compressed_and_named_as_allennlp_named(client: httpx.Client) -> None:
    content = client.post(
        "/embed", json={"sentences": [["a"], [], ["b", "c"]]}, headers={"Accept": NPZ}
    ).content

    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        assert [member.filename for member in archive.infolist()] == ["0.npy", "1.npy", "2.npy"]
        assert {member.compress_type for member in archive.infolist()} == {zipfile.ZIP_STORED}
    with np.load(io.BytesIO(content)) as file:
        assert list(file) == ["0", "1", "2"]
        assert [file[name].shape for name in file] == [(3, 1, 32), (3, 0, 32), (3, 2, 32)]


def test_no_checksum_of_npz_is_just_long_enough_to_starve_the_event_loop() -> None:
    vectors = arrays((2, 1024), (30, 1024), (3, 40, 1024))

    pieces = npz.encode(embeddings(vectors))

    sizes = [len(piece) for piece in pieces if isinstance(piece, memoryview)]
    assert sum(sizes) == sum(array.nbytes for array in vectors)
    assert all(size <= 5 * 1024 or size > 1 << 17 for size in sizes)
