"""How long an answer may be: `max_output` of the model, and the limits of one call."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from fixtures.providers import json_reply
from hypothesis import given
from hypothesis import strategies as st
from proxy.calling import PATHS, USAGE, WIRES, body, calling

from hive_core.model.config.models import parse_models
from hive_core.proxy.body import AnswerBound, parse_body
from hive_core.proxy.call_bounds import AnswerSize, expect_use
from hive_core.proxy.config import ProxyConfig
from hive_core.proxy.meter import TokenUsage
from hive_core.proxy.price import PriceTable

KEYS = {"chat": "max_completion_tokens", "responses": "max_output_tokens", "messages": "max_tokens"}
BOUNDED = '[models.small]\nprovider = "p"\nname = "s"\nmax_output = 1000\n'
PRICES = ("price_in", "price_out")
PRICED = BOUNDED + "price_in = 10\nprice_out = 50\n"


def ask(wire: str, more: str, **fields: object) -> tuple[int, list[Any], list[dict[str, Any]]]:
    """The status, what the provider was asked, and what was reserved."""

    async def main() -> tuple[int, list[Any], list[dict[str, Any]]]:
        async with calling(wire, json_reply({}), more=more) as (host, provider):
            result = await host.post(PATHS[wire], {**body(wire), "model": "small", **fields})
            asked = [request.json for request in provider.requests]
            return result.status, asked, host.hived.reserved

    return asyncio.run(main())


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("wanted", "sent"), [(999, 999), (1000, 1000), (64_000, 1000)])
def test_an_answer_is_at_most_as_long_as_the_model_allows(
    wire: str, wanted: int, sent: int
) -> None:
    _, (asked,), (reserved,) = ask(wire, BOUNDED, **{KEYS[wire]: wanted})
    assert asked[KEYS[wire]] == sent
    assert reserved["out_most"] == sent


@pytest.mark.parametrize("wire", WIRES)
def test_without_limits_of_a_call_nothing_is_added(wire: str) -> None:
    _, (asked,), (reserved,) = ask(wire, BOUNDED)
    assert not set(asked) & {*KEYS.values(), "max_tokens"}
    assert reserved["out_most"] == 1000


@pytest.mark.parametrize("wire", WIRES)
def test_a_model_without_a_stated_bound_changes_no_request(wire: str) -> None:
    """The default of `max_output` is for budgets: a body keeps its bytes."""
    unbounded = '[models.small]\nprovider = "p"\nname = "s"\n'
    _, (asked,), _ = ask(wire, unbounded, **{KEYS[wire]: 64_000})
    assert asked[KEYS[wire]] == 64_000


def test_the_older_name_of_chat_is_bounded_and_each_of_several_answers() -> None:
    _, (asked,), (reserved,) = ask("chat", BOUNDED, max_tokens=5000, n=3)
    assert asked["max_tokens"] == 1000
    assert reserved["out_most"] == 3000


def test_of_the_two_names_of_chat_the_larger_number_is_reserved() -> None:
    """A provider that knows the older name alone would give the longer answer."""
    unbounded = '[models.small]\nprovider = "p"\nname = "s"\n'
    fields = {"max_completion_tokens": 1, "max_tokens": 5000}
    _, (asked,), (reserved,) = ask("chat", unbounded, **fields)
    assert {key: asked[key] for key in fields} == fields
    assert reserved["out_most"] == 5000


@pytest.mark.parametrize("odd", ["5000", [1], {}, True, -1])
def test_neither_name_of_chat_takes_anything_but_a_number(odd: object) -> None:
    status, asked, reserved = ask("chat", BOUNDED, max_completion_tokens=1, max_tokens=odd)
    assert (status, asked, reserved) == (400, [], [])


@pytest.mark.parametrize("wire", WIRES)
def test_the_limit_of_tokens_leaves_the_answer_what_the_input_does_not_take(wire: str) -> None:
    limits = BOUNDED + "[limits]\ntokens_a_call = 500\n"
    text = "x" * 1600
    _, (asked,), (reserved,) = ask(wire, limits, user=text)
    assert 50 < asked[KEYS[wire]] < 100
    assert reserved["out_most"] == asked[KEYS[wire]]
    _, (asked,), _ = ask(wire, limits, user=text, **{KEYS[wire]: 10})
    assert asked[KEYS[wire]] == 10


def test_the_limit_of_cost_bounds_the_answer_by_its_price() -> None:
    _, (asked,), _ = ask("chat", PRICED + "[limits]\ncost_a_call = 0.005\n")
    assert 80 < asked[KEYS["chat"]] < 100  # 0.005 dollars are 100 tokens of output


@pytest.mark.parametrize("limit", ["tokens_a_call = 500", "cost_a_call = 0.005"])
def test_a_call_whose_input_takes_all_of_a_limit_is_too_large(limit: str) -> None:
    status, asked, reserved = ask("chat", f"{PRICED}[limits]\n{limit}\n", user="x" * 4000)
    assert (status, asked, reserved) == (413, [], [])


def test_a_reservation_suffices_for_the_fallback_that_answers_longer_and_costs_more() -> None:
    async def main() -> None:
        more = PRICED + '[models.m1]\nprovider = "p"\nname = "m1"\nmax_output = 10\n'
        more += 'price_in = 0\nprice_out = 0\nfallback = ["small"]\n'
        replies = [json_reply({}, 500)] * 3 + [json_reply({"usage": USAGE["chat"]})]
        async with calling("chat", *replies, more=more) as (host, provider):
            await host.post(PATHS["chat"], {**body("chat"), "model": "m1", "max_tokens": 900})
            assert provider.requests[-1].json["max_tokens"] == 900
            (reserved,) = host.hived.reserved
            wanted = {"out_most": 900, "price_in": 10, "price_out": 50}
            assert {name: reserved[name] for name in wanted} == wanted
            assert (await host.settlements())[0]["cost"] <= (100 * 10 + 900 * 50) / 1e6

    asyncio.run(main())


MODEL = st.fixed_dictionaries(
    {"price_in": st.integers(0, 50), "price_out": st.integers(0, 200)},
    optional={"max_output": st.integers(1, 100_000)},
)


@given(
    st.lists(MODEL, min_size=1, max_size=4), st.integers(1, 5),
    st.none() | st.integers(1, 1 << 20), st.none() | st.integers(1, 1 << 20), st.integers(0, 9999),
)  # fmt: skip
def test_a_reservation_suffices_for_each_target_and_is_no_longer_than_the_longest_answer(
    rows: list[dict[str, int]],
    choices: int,
    wanted: int | None,
    most: int | None,
    tokens_in: int,
) -> None:
    text = '[providers.p]\nwire = "chat"\nbase_url = "http://127.0.0.1:1"\n'
    fallback = [f"m{number}" for number in range(1, len(rows))]
    for number, row in enumerate(rows):
        text += f'[models.m{number}]\nprovider = "p"\nname = "x"\n'
        text += "".join(f"{name} = {value}\n" for name, value in row.items())
        text += f"fallback = {json.dumps(fallback)}\n" if fallback and not number else ""
    models = parse_models(text)
    prices = PriceTable(models)
    targets = ProxyConfig(models, {}, {}, prices).targets("m0")
    use = expect_use(targets, prices, AnswerSize(choices, wanted, most))
    out, price_in, price_out = (float(str(use[name])) for name in ("out_most", *PRICES))
    sizes = list[int]()
    for target in targets:
        bounds = [most, target.model.stated_max_output]
        size = min(bound for bound in (*bounds, 1 << 30) if bound is not None) * choices
        sizes.append(min(wanted or target.model.max_output * choices, size))
        cost = prices.cost(target.alias, TokenUsage(tokens_in, sizes[-1]))
        assert 1e6 * cost <= tokens_in * price_in + out * price_out + 1e-6
    assert len(targets) == len(rows)
    assert out == max(sizes)


NUMBERS = st.integers(1, 1 << 40)


@given(NUMBERS, st.none() | NUMBERS, st.none() | NUMBERS, st.booleans())
def test_only_the_bound_of_a_body_is_changed(
    most: int,
    own: int | None,
    older: int | None,
    adds: bool,  # noqa: FBT001 - of hypothesis
) -> None:
    fields = {"max_completion_tokens": own, "max_tokens": older}
    given_body = {"model": "m", **fields, "messages": [{"role": "user", "content": "é"}]}
    parsed = parse_body(json.dumps(given_body).encode(), "messages")
    bound = AnswerBound(most, ("max_completion_tokens", "max_tokens"), adds=adds)
    sent = json.loads(parsed.with_model("m", bound=bound))
    numbers = {key: min(most, value) for key, value in fields.items() if value is not None}
    if not numbers and adds:
        numbers = {"max_completion_tokens": most}
    assert sent == {**given_body, **numbers}
