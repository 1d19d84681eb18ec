"""Text that agents wrote, as HTML: escaped, isolated, and behind a bar.

Each function returns markup, or HTML as plain text for rows that are put together in Python;
nothing else of the package makes markup of such text. In Markdown only what has no address and no
attribute is left.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Final

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup
from markupsafe import escape as escape_html

from hive_core.plan.printable import escape

LINES_MOST: Final = 2000
LINE_MOST: Final = 300
_BLOCK_MOST: Final = 1 << 16
# Names, states and reasons come again and again: the HTML of this many short words is kept.
_SHORT: Final = 80
_WORDS_KEPT: Final = 4096
_CUT: Final = Markup('\n<span class="cut">the rest is not shown</span>')
# What of Markdown is left out stays in the text as it was written. Entities could name characters
# that were escaped, and a definition of a link disappears.
_LEFT_OUT: Final = (
    "autolink", "entity", "heading", "html_block", "html_inline", "image", "lheading", "link",
    "reference",
)  # fmt: skip
_TAGS: Final = {
    "p", "br", "hr", "em", "strong", "code", "pre", "ul", "ol", "li", "blockquote", "table",
    "thead", "tbody", "tr", "th", "td",
}  # fmt: skip


def quote_word(text: object, most: int = LINE_MOST) -> Markup:
    """One line of text, cut after `most` characters; line breaks are visible."""
    return Markup(word_html(text, most))  # noqa: S704 - it is escaped there


def word_html(text: object, most: int = LINE_MOST) -> str:
    """The same as plain text."""
    word = str(text if text is not None else "")
    if len(word) <= _SHORT and len(word) <= most:
        return _short_word(word)
    return _isolate(word, most)


@lru_cache(_WORDS_KEPT)
def _short_word(word: str) -> str:
    return _isolate(word, _SHORT)


def _isolate(line: str, most: int) -> str:
    cut = line[:most] + ("…" if len(line) > most else "")
    return f"<bdi>{escape_html(escape(cut))}</bdi>"


def value_html(value: object) -> str:
    """A number or a text, escaped; also for attributes."""
    if type(value) is int:
        return str(value)
    return str(escape_html(escape(value) if isinstance(value, str) else value))


def quote_text(text: object) -> Markup:
    """A block of text, each line isolated, behind the bar. Too much is cut, and said."""
    whole = str(text if text is not None else "")
    lines = whole[:_BLOCK_MOST].split("\n")
    shown = Markup("\n").join(
        Markup("<bdi>{}</bdi>").format(escape(line)) for line in lines[:LINES_MOST]
    )
    is_cut = len(whole) > _BLOCK_MOST or len(lines) > LINES_MOST
    return Markup('<div class="said">{}{}</div>').format(shown, _CUT if is_cut else "")


def quote_markdown(text: object) -> Markup:
    """Text of a conversation, with its lists, tables and code."""
    whole = str(text if text is not None else "")
    lines = whole[:_BLOCK_MOST].split("\n")
    visible = "\n".join(escape(line) for line in lines[:LINES_MOST])
    html = nh3.clean(_markdown().render(visible), tags=_TAGS, attributes={}, link_rel=None)
    is_cut = len(whole) > _BLOCK_MOST or len(lines) > LINES_MOST
    # Cleaned by a parser of its own: no tag is left but those above, and none has an attribute.
    return Markup('<div class="said prose">{}{}</div>').format(
        Markup(html),  # noqa: S704
        _CUT if is_cut else "",
    )


@cache
def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table").disable(list(_LEFT_OUT))
