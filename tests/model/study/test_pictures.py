"""The pictures of the study are SVG."""

from xml.etree import ElementTree

from elmo_model.study.intervals import Interval
from elmo_model.study.pictures import intervals, weights


def test_a_row_has_a_dot_and_a_line_as_wide_as_its_interval() -> None:
    found = intervals("a & b", {"pos": {"x": Interval(0.5, 0.1), "y": Interval(0.9, None)}})

    root = ElementTree.fromstring(found)
    circles = [each.get("cx") for each in root.iter("{http://www.w3.org/2000/svg}circle")]
    lines = [
        float(each.get("x2", 0)) - float(each.get("x1", 0))
        for each in root.iter("{http://www.w3.org/2000/svg}line")
    ]
    assert circles == ["290.0", "610.0"]
    assert lines == [160.0, 0.0]


def test_equal_scores_have_a_picture() -> None:
    assert "<circle" in intervals("t", {"pos": {"x": Interval(0.5, None)}})


def test_the_bars_of_a_row_are_its_weights() -> None:
    root = ElementTree.fromstring(weights("t", {"a": [0.25, 0.75], "b": [1.0, 0.0]}))

    bars = [
        each.get("width")
        for each in root.iter("{http://www.w3.org/2000/svg}rect")
        if len(each)  # it has a title; the legend has none
    ]
    assert bars == ["100.0", "300.0", "400.0", "0.0"]
