"""The drawing of the tree, to the letter."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from hive_core.cli.agents.tree import draw, nest

GOLDEN = """\
root                          agent   running  idle     The one in charge
├── lead                      lead    running
│   ├── tester                worker  failed   -        Finds out what breaks
│   └── writer                worker  running  blocked
│       └── spell-checker     task    stopped  -
└── researcher-with-a-long-n  agent   parked   -        Reads everything that w…
other-root                    agent   running  idle
"""


def row(name: str, parent: str | None, role: str, state: str, **rest: str) -> Mapping[str, object]:
    return {"name": name, "uuid": f"uuid of {name}", "parent": parent, "role": role,
            "title": "", "state": state, "activity": "", **rest}  # fmt: skip


ROWS = [
    row("root", None, "agent", "running", activity="idle", title="The one in charge"),
    row("lead", "root", "lead", "running", activity="running"),
    row("tester", "lead", "worker", "failed", title="Finds out what breaks"),
    row("writer", "lead", "worker", "running", activity="blocked"),
    row("spell-checker", "writer", "task", "stopped"),
    row("researcher-with-a-long-n", "root", "agent", "parked",
        title="Reads everything that was ever written about it"),
    row("other-root", None, "agent", "running", activity="idle"),
]  # fmt: skip


def bare(lines: list[str]) -> str:
    return "".join(re.sub(r"\x1b\[\d+m", "", line).rstrip() + "\n" for line in lines)


def test_the_tree_at_80_columns_matches_its_golden_text() -> None:
    assert bare(draw(nest(ROWS), 80)) == GOLDEN


def test_states_are_coloured() -> None:
    text = "\n".join(draw(nest(ROWS), 80))
    assert "\x1b[32mrunning" in text
    assert "\x1b[31mfailed" in text


def test_a_deep_tree_keeps_its_names_and_its_width() -> None:
    names = [f"agent-{depth}" for depth in range(32)]
    deep = [
        row(name, names[at - 1] if at else None, "worker", "running", activity="idle")
        for at, name in enumerate(names)
    ]
    lines = bare(draw(nest(deep), 80)).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert all(name in line for name, line in zip(names, lines, strict=True))


def test_agent_titles_cannot_act_on_the_terminal() -> None:
    hostile = [row("root", None, "agent", "running", title="\x1b[2J\u202egnihtemos\nelse")]
    (line,) = draw(nest(hostile), 200)
    assert "⟨U+001B⟩[2J⟨U+202E⟩gnihtemos⏎else" in line


def test_json_nests_children_and_keeps_the_contracted_fields() -> None:
    (root, other) = [json.loads(json.dumps(node.plain)) for node in nest(ROWS)]
    assert other["name"] == "other-root"
    assert set(root) >= {"name", "uuid", "parent", "role", "state", "activity", "children"}
    lead = root["children"][0]
    assert [child["name"] for child in lead["children"]] == ["tester", "writer"]


def test_an_agent_with_a_hidden_parent_is_shown_as_a_root() -> None:
    below = [row for row in ROWS if row["name"] in ("writer", "spell-checker")]
    (root,) = nest(below)
    assert root.row["name"] == "writer"
    assert root.children[0].row["name"] == "spell-checker"
