"""Text that agents wrote, as HTML: escaped, isolated, and behind a bar.

Each function returns markup; nothing else of the package makes markup of such text. In Markdown
only what has no address and no attribute is left.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup

from hive_core.plan.printable import escape

LINES_MOST: Final = 2000
LINE_MOST: Final = 300
_BLOCK_MOST: Final = 1 << 16
_OPEN, _CLOSE = Markup("<bdi>"), Markup("</bdi>")
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
    line = str(text if text is not None else "")
    cut = line[:most] + ("…" if len(line) > most else "")
    return _OPEN + escape(cut) + _CLOSE  # a sum with markup escapes text, as `format` does


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
