"""Gzipped tars of files that are made up."""

import io
import tarfile
from pathlib import Path


def write_tar(path: Path, *members: tuple[str, bytes]) -> Path:
    """Write members, by their paths, in their order; return the path of the tar."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path
