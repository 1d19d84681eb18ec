"""What the deploy road does with requests, in steps that a test takes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from operations.world import Reply, World

from hive_core.broker.call import Call, Change, Record
from hive_core.broker.operation import Result
from hive_core.model.config.agent_config import ConfigRequest
from hive_core.model.config.approval import Approval, Binding, Effect, Generation
from hive_core.operations.approvals.outcome import end_approval, void_overtaken
from hive_core.plan.effect import fields, grant

ONE, TWO, THREE = ("1a" * 20, "2b" * 20, "3c" * 20)


class Nothing(Result):
    """No answer."""


def ask(world: World, caller: str = "a", agent: str = "a1", **more: object) -> str:
    """A request; its id."""
    collected: dict[str, object] = {"commit": ONE, "message": "better words", **more}
    return str(world.call(caller, "request_apply_commit", agent=agent, **collected)["approval"])


def row(world: World, id_: str) -> Approval:
    result = world.ledger.approvals.get(id_)
    assert result is not None
    return result


def line(text: str, sign: str = "+", path: str = "prompts/a.md") -> dict[str, object]:
    return {"path": path, "old": None, "new": 1, "sign": sign, "text": text}


def judge(
    world: World,
    id_: str,
    wishes: Mapping[str, object] | None = None,
    lines: Sequence[Mapping[str, object]] = (),
    effect: Effect = Effect.LIVE,
) -> str:
    """The commit was well-formed: it waits for the operator, with its difference on disk."""
    result = row(world, id_)
    place = f"{result.agent}.git/hive" if result.agent else ".inputs"
    folder = world.folder / "applied" / place
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(entry) + "\n" for entry in (*lines, line("the end")))
    (folder / f"{id_}.diff").write_text(text)
    bound = result.binding
    binding = Binding(bound.commit or THREE, "7e" * 20, "sha256-x", bound.base, "", bound.meta)
    with world.ledger.transaction():
        world.ledger.approvals.record_review(
            id_, binding, effect, wishes or {}, {"files": 3, "bytes": 120, "changed": 1}
        )
        world.ledger.approvals.move(id_, "check", world.clock.now())
    world.broker.touch({f"approval:{id_}"})
    return id_


def waits(world: World, caller: str = "a", agent: str = "a1", **more: object) -> str:
    """A request that waits for the operator."""
    return judge(world, ask(world, caller, agent, **more))


def finish(world: World, id_: str, event: str, reason: str = "", lines: str = "") -> None:
    """What the road does at an end."""

    def end(call: Call) -> Record[Nothing]:
        result = row(world, id_)
        end_approval(call, result, event, reason=reason, lines=lines)
        return Record(Nothing())

    world.broker.perform("deploy", end)
    world.run()


def deploy(world: World, id_: str) -> None:
    """Everything that follows an approval, when all goes well."""
    result = row(world, id_)
    name = world.hive.names[result.agent]

    def change(call: Call) -> Change[Nothing]:
        spec = grant(call.hive.spec(name), ConfigRequest.model_validate(dict(result.requested)))
        spec = spec.model_copy(update={"config": result.binding.commit})
        remember(world, result.agent, result.binding.commit, id_, fields(spec))
        for event in ("build", "deploy", "watch"):
            call.ledger.approvals.move(id_, event, call.now)
        end_approval(call, row(world, id_), "confirm")
        void_overtaken(call, result)
        return Change(Nothing(), call.hive.with_spec(name, spec), f"deploy {name}")

    world.broker.perform("deploy", change)
    world.run()


def remember(
    world: World, agent: str, commit: str, approval: str, stored: Mapping[str, object] | None = None
) -> None:
    """One more generation; inside a transaction."""
    generations = world.ledger.generations
    number = generations.next(agent)
    generations.put(
        Generation(agent, number, commit, approval, world.clock.now(), fields=stored or {})
    )


def show(world: World, id_: str, caller: str = "operator", **more: object) -> Reply:
    return world.ask_as(world.uuid(caller), "get_approval", {"id": id_, **more}).result()


def state(world: World, id_: str) -> str:
    return row(world, id_).state


def hold(world: World, agent: str, *capabilities: str) -> None:
    """As in a spec of the time when that was not refused."""

    def change(call: Call) -> Change[Nothing]:
        spec = call.hive.spec(agent)
        held = tuple(sorted({*spec.capabilities, *capabilities}))
        hive = call.hive.with_spec(agent, spec.model_copy(update={"capabilities": held}))
        return Change(Nothing(), hive, "before")

    world.broker.perform("before", change)
    world.run()
