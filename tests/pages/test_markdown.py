"""Guidelines that a project writes are shown, and can do nothing else."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.errors import UserError
from fedrel.pages.markdown import read_markdown, rendered


def test_what_one_writes_in_guidelines():
    html = rendered("# Rules\n\n- **right**: *says* so\n- `x`\n\n1. one\n\n> note\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    for piece in (
        "<h3>Rules</h3>",
        "<strong>right</strong>",
        "<em>says</em>",
        "<code>x</code>",
        "<ol>",
        "<blockquote>",
    ):
        assert piece in html
    assert "<td>2</td>" in html


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ('a <img src=x onerror="f()"> b', "a &lt;img src=x onerror=&quot;f()&quot;&gt; b"),
        ("![a logo](http://evil.example/x.png)", "<p>a logo</p>"),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))"),
        ("[x](data:text/html,hi)", "[x](data:text/html,hi)"),
        ("[x](/verdict)", "<a>x</a>"),
        ("[x](//evil.example)", "<a>x</a>"),
        ("<javascript:alert(1)>", "&lt;javascript:alert(1)&gt;"),
    ],
)
def test_nothing_runs_and_nothing_is_loaded(written, shown):
    assert shown in rendered(written)


def test_links_lead_out_and_tell_nothing():
    link = '<a href="https://wiki.example/a" rel="noopener noreferrer" target="_blank">x</a>'
    assert link in rendered("[x](https://wiki.example/a)")


@given(st.text(alphabet=st.sampled_from("<>!&[]()\"'`#*|- \nabc:/js"), max_size=60))
def test_no_tag_comes_through(text):
    tags = set(re.findall(r"</?([a-zA-Z][\w-]*)", rendered(text)))
    assert tags <= set(
        re.findall(r"\w+", "p a em strong code pre br hr ul ol li blockquote h3 h4 h5 h6 table thead tbody tr th td")
    )


def test_a_file_that_cannot_be_shown_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        read_markdown(tmp_path / "none.md")
    (tmp_path / "latin.md").write_bytes(b"caf\xe9")
    with pytest.raises(UserError, match="not text in UTF-8"):
        read_markdown(tmp_path / "latin.md")
    (tmp_path / "long.md").write_text("x" * 200_001)
    with pytest.raises(UserError, match="200,001 characters"):
        read_markdown(tmp_path / "long.md")
