"""The grammar of values: Python's literals, and lists and tables of bare words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.model.campaigns.literals import read_tree, read_value, without_comment

WORDS = st.from_regex(r"[a-z_][a-z0-9_.\-/ ]{0,6}[a-z0-9_]", fullmatch=True).filter(
    lambda word: word.lower() not in {"true", "false", "none"}
)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = NUMBERS | st.booleans() | st.none() | WORDS
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


def bare(tree):
    """Write a tree without any quotes."""
    if isinstance(tree, list):
        return "[" + " , ".join(bare(item) for item in tree) + "]"
    if isinstance(tree, dict):
        return "{" + ",".join(f"{key}: {bare(value)}" for key, value in tree.items()) + "}"
    return str(tree)


@given(TREES)
def test_trees_of_bare_words_are_read_as_they_were_written(tree):
    assert read_value(bare(tree)) == tree


@given(
    st.recursive(
        NUMBERS | st.booleans() | st.none() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
        ),
        max_leaves=12,
    )
)
def test_python_literals_are_read_as_python_does(tree):
    assert read_value(repr(tree)) == tree


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused_with_a_value_error(text):
    try:
        read_value(text)
    except ValueError as error:
        assert str(error)


@given(st.lists(NUMBERS, max_size=4), st.text("#; ab'\"", max_size=10))
def test_comment_after_a_list_is_cut_off(numbers, comment):
    assert without_comment(f"{numbers} # {comment}") == repr(numbers)


@pytest.mark.parametrize(
    "text, value",
    [
        ("1", 1),
        ("-1.5e-3", -0.0015),
        ("1_000", 1000),
        ("TRUE", True),
        ("false", False),
        ("NONE", None),
        ("'true'", "true"),
        ('"quoted"', "quoted"),
        ("bare", "bare"),
        ("two words", "two words"),
        ("inputs/a.csv", "inputs/a.csv"),
        ("it's", "it's"),
        ("'open", "'open"),
        ("007", "007"),
        ("", ""),
        ("*", "*"),
        ("[*]", ["*"]),
        ("[ * ]", ["*"]),
        ('["*"]', ["*"]),
        ("[]", []),
        ("{}", {}),
        ("()", []),
        ("(1)", 1),
        ("(1,)", [1]),
        ("(1, a)", [1, "a"]),
        ("1, 2", [1, 2]),
        ("'a', 'b'", ["a", "b"]),
        ("{b, a}", ["b", "a"]),
        ("{2, 1}", [2, 1]),
        ("[a, b,]", ["a", "b"]),
        ("[1,\n  2]", [1, 2]),
        ("['a' 'b']", ["ab"]),
        ("[x1 x2, x3]", ["x1 x2", "x3"]),
        ("[[20, 10], [5]]", [[20, 10], [5]]),
        ("[loguniform(0.1, 1), 3]", ["loguniform(0.1, 1)", 3]),
        ("['loguniform(0.1,1)']", ["loguniform(0.1,1)"]),
        ("[choice([1, 2], 'a,b')]", ["choice([1, 2], 'a,b')"]),
        ("loguniform(0.01,1)", "loguniform(0.01,1)"),
        ("{x1: 5, x2: [1, 2]}", {"x1": 5, "x2": [1, 2]}),
        ("{'x1': 5, x2: a:b,}", {"x1": 5, "x2": "a:b"}),
        ("{1: 2}", {"1": 2}),
        ("[Temp [C], x]", ["Temp [C]", "x"]),
        ("b'bytes'", "b'bytes'"),
        (r"'C:\data\runs.csv'", "C:\\data\runs.csv"),
        (r"'C:\x'", r"C:\x"),
    ],
)
def test_value(text, value):
    read = read_value(text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    "text, part",
    [
        ("[a, b", "',' or ']' is missing at the end"),
        ("{a: 1", "',' or '}' is missing at the end"),
        ("[a,, b]", "a value is missing"),
        ("[,]", "a value is missing"),
        ("{a: }", "a value is missing"),
        ("[1] 2", "'2' follows the end of the value"),
        ("[[1] 2]", "',' or ']' is missing before '2]'"),
        ("{a: 1, b}", "'b' has no name"),
        ("{[a]: 1}", "['a'] is not a name"),
        ("{a: 1, a: 2}", "'a' is given twice"),
        ("[loguniform(1, 2]", "')' is missing"),
        ("[" * 100, "nested more than 50 deep"),
    ],
)
def test_lists_and_tables_written_wrongly_are_refused(text, part):
    with pytest.raises(ValueError) as caught:
        read_value(text)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    "text, tree",
    [("[1e3, 007, '1e3', true]", ["1e3", "007", "1e3", "true"]), ("{1.0: 2}", {"1.0": "2"})],
)
def test_bare_words_of_a_tree_stay_as_they_are_written(text, tree):
    assert read_tree(text) == tree


@pytest.mark.parametrize(
    "line, rest",
    [
        ("0.2 # note", "0.2"),
        ("0.2 ; note", "0.2"),
        ("0.2\t#note", "0.2"),
        ("a#b", "a#b"),
        ("a;b", "a;b"),
        ("# note", ""),
        ("", ""),
        ("'a # b' # c", "'a # b'"),
        ("['a ; b', \"c # d\"] ; e", "['a ; b', \"c # d\"]"),
        ("it's # a note, isn't it", "it's"),
        ("{'a # b': 1}", "{'a # b': 1}"),
        (r"'a \' # b' # c", r"'a \' # b'"),
    ],
)
def test_comment_is_cut_off_outside_quotes(line, rest):
    assert without_comment(line) == rest
