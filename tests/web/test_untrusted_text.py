"""Text of agents: no markup, control or link comes through; no template has a way round (K39)."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fixtures.hostile_text import HOSTILE
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from hive_core.web import rendering, static_files
from hive_core.web.untrusted_text import quote_markdown, quote_text, quote_word

ALLOWED = {
    "div", "bdi", "span", "p", "br", "hr", "em", "strong", "code", "pre", "ul", "ol", "li",
    "blockquote", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
QUOTES = (quote_word, quote_text, quote_markdown)


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.others: list[str] = []

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, attrs))

    @override
    def handle_comment(self, data: str) -> None:
        self.others.append(data)

    @override
    def handle_decl(self, decl: str) -> None:
        self.others.append(decl)


def check(text: str) -> None:
    for quote in QUOTES:
        html = str(quote(text))
        parser = _Elements()
        parser.feed(html)
        parser.close()
        assert {tag for tag, _ in parser.seen} <= ALLOWED
        assert not parser.others
        attributes = [pair for _, pairs in parser.seen for pair in pairs]
        assert all(
            pair[0] == "class" and pair[1] in ("said", "said prose", "cut") for pair in attributes
        )
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", html)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text(text: str) -> None:
    check(text)


@given(st.text())
def test_any_text_is_text(text: str) -> None:
    check(text)


def test_markdown_keeps_lists_and_code_and_shows_what_it_leaves_out() -> None:
    html = str(quote_markdown("- one\n- `two`\n\n# no heading\n[x](http://evil.example)\n![y](z)"))

    assert "<li>one</li>" in html
    assert "<code>two</code>" in html
    assert "# no heading" in html
    assert "[x](http://evil.example)" in html
    assert "![y](z)" in html


def test_a_definition_of_a_link_stays_visible() -> None:
    assert "[foo]: http://evil.example" in str(quote_markdown("[foo]: http://evil.example\n"))


def test_long_text_says_that_it_is_cut() -> None:
    assert "the rest is not shown" in str(quote_text("x" * 70_000))
    assert "the rest is not shown" in str(quote_text("\n" * 3000))
    assert "the rest is not shown" in str(quote_markdown("x" * 70_000))


def test_a_word_is_cut_after_as_many_characters_as_its_place_has() -> None:
    assert quote_word("abc", 2) == "<bdi>ab…</bdi>"
    assert quote_word("abc", 3) == quote_word("abc") == "<bdi>abc</bdi>"
    assert quote_word("x" * 400, 500) == f"<bdi>{'x' * 400}</bdi>"
    assert quote_word("x" * 400) == f"<bdi>{'x' * 300}…</bdi>"


TEMPLATES = sorted(rendering.FOLDER.rglob("*.html"))


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_marks_nothing_safe_and_has_no_behaviour(path: Path) -> None:
    text = path.read_text()

    assert not re.search(r"\|\s*safe|autoescape|Markup|<style|<script(?![^>]* src=)", text)
    assert not re.search(r"\sstyle\s*=|\son[a-z]+\s*=|javascript:|https?://|\shx-", text)
    # Each attribute is quoted, or a word such as `hidden`.
    bare = re.sub(r'"[^"]*"', '""', re.sub(r"\{[{%#].*?[}%#]\}", "", text, flags=re.DOTALL))
    assert not re.search(r"<[a-z][^>]*\s[a-z-]+=(?!\")", bare)


@pytest.mark.parametrize(
    "path", sorted(static_files.FOLDER.glob("*.js")), ids=lambda path: path.name
)
def test_a_module_is_small_and_evaluates_nothing(path: Path) -> None:
    text = path.read_text()

    assert not re.search(r"\beval\(|new Function|document\.write|outerHTML|srcdoc", text)
    assert len(text.splitlines()) <= 400
    for match in re.finditer(r"(innerHTML = |insertAdjacentHTML\([^,]*, |parseFromString\()", text):
        assert text[match.end() :].startswith("policy.createHTML(")
