"""The addresses of a file: its own in turn, or the one below a mirror."""

from elmo_model.models.published import PUBLISHED, File, Published


def test_a_file_without_addresses_lies_in_the_bucket() -> None:
    file = File("elmo/a.json", 1, 2)

    assert file.urls() == (
        f"{PUBLISHED}/elmo/a.json",
        "https://allennlp.s3.amazonaws.com/models/elmo/a.json",
    )
    assert file.urls("http://here/") == ("http://here/elmo/a.json",)
    assert (file.name, file.is_archive) == ("a.json", False)


def test_own_addresses_replace_the_bucket_and_a_mirror_replaces_them() -> None:
    file = File("b.org/m.tar.gz", 1, 2, ("http://b.org/m.tar.gz", "http://c.org/m"))

    assert file.urls() == ("http://b.org/m.tar.gz", "http://c.org/m")
    assert file.urls("http://here") == ("http://here/b.org/m.tar.gz",)
    assert file.is_archive


def test_a_folder_of_the_cache_has_a_plain_name() -> None:
    assert Published("nlpl:11/144", "", ()).folder == "nlpl-11-144"
