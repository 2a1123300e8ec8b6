"""Evidence: what a reason quotes is found in the text, or said to be missing."""

import pytest

from assay.trust import evidence_of


@pytest.mark.parametrize(
    ("reason", "text", "spans"),
    [
        ('It says "the capital, Paris".', "The capital: Paris!", [(0, 18)]),
        ('It says "ÉTÉ, été".', "L'été, été.", [(2, 10)]),
        ("It says “two words”, then «three»", "one two words, three", [(4, 13), (15, 20)]),
        ("See `x = 1`.", "let x = 1;", [(4, 9)]),
        ('"first … last"', "first of all and at last", [(0, 24)]),
        ('"a b c" and "a b c"', "a b c", [(0, 5)]),
        ("It is 'there'.", "there", []),
        ("No quotation at all.", "text", []),
        ('It says "aab".', "aaab aab", [(5, 8)]),
        ('It says "say it".', "say it_again", [(0, 6)]),
        ('It says "istanbul".', "İstanbul istanbul", [(9, 17)]),
        ('答案说"首都是巴黎"。', "法国的首都是巴黎。人口众多。", [(3, 8)]),
        ('答案说"巴黎"和“首都 是”。', "法国的首都是巴黎。", [(6, 8), (3, 6)]),
        ("「東京です」と書いた。", "首都は東京です。", [(3, 7)]),
        ("『ラーメン… 好き』", "私はラーメンが大好きです", [(2, 10)]),
        ('บอกว่า "กรุงเทพ"', "เมืองหลวงคือกรุงเทพมหานคร", [(12, 19)]),
        ('ข้อความ "ที่นี่"', "อยู่ที่นี่", [(4, 10)]),
        ('"파리"라고 했다', "수도는 파리는 아니다", [(4, 6)]),
        ('It says "用 Python".', "我用Python写", [(1, 8)]),
        ('It says "Python".', "我用Python写", [(2, 8)]),
        ('It says "हिन्दी".', "यह हिन्दी है", [(3, 9)]),
        ('It says "the implementa".', "Here the implementation is fine.", [(5, 19)]),
        ('It says "ementation is fi".', "Here the implementation is fine.", [(13, 29)]),
        ('It says "capital".', "Capitals are cities, a capital too.", [(23, 30)]),
        ('It says "capital".', "Capitals are cities.", [(0, 7)]),
        ('It says "the beginn… the en".', "At the beginning and at the end.", [(3, 30)]),
    ],
)
def test_quotations_are_found_where_they_stand(reason, text, spans):
    """Case, punctuation and white space may differ; a quotation counts once."""
    assert [(found["start"], found["end"]) for found in evidence_of(reason, text)] == spans


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ('It says "Paris is the capital".', "The capital is Paris."),
        ('It says "art".', "A party."),
        ('It says "possible".', "It is impossible."),
        ('It says "is a".', "Write this about it."),
        ('答案说"巴黎是"', "首都是巴黎。"),
        ('It says "no way".', "I know ways."),
        ('It says "last … first".', "first and last"),
        ('It says "... ?".', "three dots"),
        ('It says "Paris".', ""),
    ],
)
def test_what_nobody_wrote_is_missing(reason, text):
    """Other words, short parts of words, and another order are not there."""
    [found] = evidence_of(reason, text)
    assert found["found"] is False


def test_a_reason_may_quote_both():
    """What is there has a place, what is not has none."""
    found = evidence_of('"blue sky" but no "red sea"', "A blue sky.")
    assert [("start" in each) for each in found] == [True, False]


def test_a_hostile_reason_takes_no_time():
    """A quotation mark without end, and a thousand quotations, of which five hundred are looked for."""
    assert evidence_of('"' + "a " * 200_000, "a " * 1000) == []
    many = " ".join(f'"word {n}"' for n in range(1000))
    assert len(evidence_of(many, "word 5")) == 500
