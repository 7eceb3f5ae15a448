"""Pictures in SVG."""

from xml.etree import ElementTree

from elmo_serve.look import svg

NAME = "{http://www.w3.org/2000/svg}"


def test_a_document_names_itself_and_escapes_words() -> None:
    root = ElementTree.fromstring(
        svg.document('a <b> & "c"', 100, 50, ".x{fill:red}", [svg.text(1, 2, "<&>")])
    )

    assert root.attrib["aria-label"] == 'a <b> & "c"'
    assert root.attrib["viewBox"] == "0 0 100 50"
    assert [each.text for each in root.iter(f"{NAME}text")] == ['a <b> & "c"', "<&>"]
    assert ".x{fill:red}" in (root.findtext(f"{NAME}style") or "")


def test_bars_begin_in_the_middle() -> None:
    found = svg.signed_bars("t", ["a note"], {"1 and 2": {"layer 0": 0.5, "layer 1": -1.0}})
    bars = [
        (float(each.attrib["x"]), float(each.attrib["width"]))
        for each in ElementTree.fromstring(found).iter(f"{NAME}rect")
    ]

    assert bars == [(260.0, 80.0), (100.0, 160.0)]
    assert "0.500" in found and "-1.000" in found and "a note" in found
