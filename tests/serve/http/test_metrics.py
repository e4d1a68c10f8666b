"""Prometheus's text format."""

from patchwords.serve.http.metrics import Counter, Histogram, Looked, text


def test_counts_histograms_and_what_is_looked_up() -> None:
    counter, histogram = Counter("a_total", "Counted.", ("x",)), Histogram("b", "Measured.", bounds=(1, 2.5))
    counter.add("one")
    counter.add("one", amount=2)
    for value in (0.5, 1, 2, 9):
        histogram.add(value)
    looked = Looked("c", "Seen.", lambda: {(): 7})
    assert text([counter, histogram, looked]).splitlines() == [
        "# HELP a_total Counted.",
        "# TYPE a_total counter",
        'a_total{x="one"} 3',
        "# HELP b Measured.",
        "# TYPE b histogram",
        'b_bucket{le="1"} 2',
        'b_bucket{le="2.5"} 3',
        'b_bucket{le="+Inf"} 4',
        "b_sum 12.5",
        "b_count 4",
        "# HELP c Seen.",
        "# TYPE c gauge",
        "c 7",
    ]


def test_the_value_of_a_label_is_escaped() -> None:
    """Promise 31: a model may be called anything."""
    counter = Counter("a_total", "Counted.", ("x",))
    counter.add('"}\n\\\udc80')
    assert text([counter]).splitlines()[-1] == r'a_total{x="\"}\n\\?"} 1'
