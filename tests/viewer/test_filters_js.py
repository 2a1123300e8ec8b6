"""The filter language in JavaScript, tested with the same table of cases as the one in Python."""

import json
from pathlib import Path

TABLE = Path(__file__).parents[1] / "cases" / "run_filters.jsonl"


def test_a_filter_finds_the_rows_of_the_table(page, site):
    """Or raises the error of the table."""
    page.goto(site)
    head, *cases = map(json.loads, TABLE.read_text(encoding="utf-8").splitlines())
    results = page.evaluate(
        """([{criteria, tags, rows}, cases]) => cases.map(({filter}) => {
            try {
                const read = Assay.filters.makeFilter(filter, criteria, tags);
                return rows.map((row, place) => [row, place])
                    .filter(([row]) => read.quick(row) && read.slow(row.text)).map(([, place]) => place);
            } catch (error) {
                return error.message;
            }
        })""",
        [head, cases],
    )
    for case, result in zip(cases, results, strict=True):
        assert result == case.get("rows", case.get("error")), case["filter"]


def test_a_value_is_quoted_if_the_filter_language_requires_it(page, site):
    page.goto(site)
    quoted = [
        page.evaluate("value => Assay.filters.quoteValue(value)", value)
        for value in ("a", "a b", 'a"b', "")
    ]
    assert quoted == ["a", '"a b"', '"ab"', '""']
