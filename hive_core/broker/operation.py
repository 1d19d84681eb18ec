"""The declaration of an operation, and the registry from which all surfaces are derived."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from operator import attrgetter
from types import MappingProxyType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, ConfigDict, Field

from hive_core.broker.login_rule import DERIVED, LoginRule
from hive_core.model.agents.roles import ACTIONS, ADMINISTER, Action
from hive_core.policy.role_guard import guard_by_role
from hive_core.policy.rules import OPERATOR, Rule

if TYPE_CHECKING:
    from hive_core.broker.call import Call, Outcome


class Params(BaseModel):
    """Base of every operation's parameters: unknown ones are refused, types are not coerced.

    Fields are what JSON has: str, int, float, bool, list, dict, Literal and nested Params.
    """

    # 1e999 is a number in JSON and infinity in Python. What is not used is not built: hived starts
    # sooner.
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True,
        populate_by_name=True,
    )  # fmt: skip


class Mutation(Params):
    """Parameters of an operation that changes or records something."""

    idempotency_key: str | None = Field(
        None, min_length=1, max_length=128,
        description="Repeating the call with this key within 7 days returns the first result.",
    )  # fmt: skip


class Confidential(Mutation):
    """Parameters with a secret in them: nothing of them is kept, not even a digest.

    So such a call is not remembered under its idempotency key. Done twice it has to be what it is
    when done once.
    """


class Result(BaseModel):
    """Base of every operation's result. A field named by a keyword takes `serialization_alias`."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


P = TypeVar("P", bound=Params)
Handler = Callable[["Call", P], "Outcome"]
Facts = Callable[["Call", P], frozenset[str]]


@dataclass(frozen=True)
class Whose:
    """An operation on a thing is authorized against the agent to which the thing belongs.

    `param` has the id of the thing, which is a `noun`; `find` returns the name of its agent,
    or `operator`; None when the thing does not exist. Things that the caller may not see are
    answered as unknown.
    """

    noun: str
    param: str
    find: Callable[[Call, Any], str | None]


@dataclass(frozen=True)
class Operation:
    """One operation. `writes` needs a transaction, `changes` may commit.

    `action` is what the operation does: a caller whose role does not have the action is refused,
    whatever `allow` says.
    `target` and `second` name the params judged by `allow`: an absent target is the caller itself,
    an empty second means "no parent". `preposition` stands before the target in refusals: "cannot
    send to bob". `facts` finds what the rule cannot see (`reply`). `whose` replaces the target of
    a call about a thing of an agent (a task, a question).
    `shares` maps aliases of other operations to a parameter: a call under such an alias that sets
    the parameter calls this operation.
    An operation with `after` in its params and `next` in its result streams; `streams=True`
    declares that for an operation that is called again with the same params. An `urgent`
    operation may use the ballast when the disk is full.
    For programs that ask before a call: a `destructive` operation ends, replaces or removes
    something; an `idempotent` one has no further effect when it is called again with the same
    params; an `open_world` one reaches something outside the hive.
    What logins on login.sock may call is derived (`broker/scopes.py`) from the rule, the params
    and `login`.
    """

    name: str
    doc: str
    action: Action
    allow: Rule
    handler: Handler[Any]
    params: type[Params]
    result: type[Result]
    writes: bool
    changes: bool
    target: str | None = None
    second: str | None = None
    preposition: str = ""
    facts: Facts[Any] | None = None
    whose: Whose | None = None
    aliases: tuple[str, ...] = ()
    shares: Mapping[str, str] = field(default_factory=dict)
    streams: bool = False
    urgent: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    login: LoginRule = DERIVED

    @cached_property
    def target_of(self) -> Callable[[Params], str | None]:
        """The agent that params name as the target; None: no param does, or it was left out."""
        return _nothing_of if self.target is None else attrgetter(self.target)

    @cached_property
    def key_of(self) -> Callable[[Params], str | None]:
        """The idempotency key under which a call with these params is remembered."""
        return attrgetter("idempotency_key") if self.is_remembered else _nothing_of

    @cached_property
    def awaits(self) -> bool:
        """Whether the broker can answer it after its job has ended: `wait` is in seconds."""
        wait = self.params.model_fields.get("wait")
        return wait is not None and wait.annotation is float and "job" in self.result.model_fields

    @property
    def is_destructive(self) -> bool:
        """Whether it may end, replace or remove something."""
        return self.mutates and (self.destructive or self.action in _DESTRUCTIVE)

    @property
    def is_idempotent(self) -> bool:
        """Whether a second call with the same params has no further effect."""
        return self.idempotent or not self.mutates

    @property
    def method(self) -> str:
        """The Varlink method: CamelCase of the name."""
        return camel(self.name)

    @cached_property
    def validate(self) -> Callable[[Mapping[str, Any]], Params]:
        """Makes its parameters of those of a frame; raises ValidationError."""
        return self.params.__pydantic_validator__.validate_python

    @cached_property
    def mutates(self) -> bool:
        return issubclass(self.params, Mutation)

    @cached_property
    def is_remembered(self) -> bool:
        """Whether a call of it with an idempotency key is remembered under this key."""
        return self.mutates and not issubclass(self.params, Confidential)

    @cached_property
    def verb(self) -> str:
        """For sentences such as `cannot stop bob`."""
        return _VERBS.get(self.name) or self.name.replace("_", " ")


# What these do ends something, whatever an operation with such an action is called.
_DESTRUCTIVE: Final = frozenset[Action]({"stop", "destroy", "move"})
# Of operations that are named for what they return.
_VERBS = {"history": "show the history", "loose_ends": "list the loose ends"}
REGISTRY: dict[str, Operation] = {}
NOTHING_SHARED: Final[Mapping[str, str]] = MappingProxyType({})


def _nothing_of(_: Params) -> None:
    """What params without such a field name."""


@cache
def camel(name: str) -> str:
    """`get_logs` as `GetLogs`."""
    return "".join(part.capitalize() for part in name.split("_"))


def operation(  # noqa: PLR0913 - a declaration, all by keyword
    *,
    action: Action,
    allow: Rule,
    target: str | None = None,
    second: str | None = None,
    preposition: str = "",
    facts: Facts[Any] | None = None,
    whose: Whose | None = None,
    aliases: tuple[str, ...] = (),
    shares: Mapping[str, str] = NOTHING_SHARED,
    streams: bool = False,
    urgent: bool = False,
    destructive: bool = False,
    idempotent: bool = False,
    open_world: bool = False,
    login: LoginRule = DERIVED,
    into: dict[str, Operation] = REGISTRY,
) -> Callable[[Handler[P]], Handler[P]]:
    """Declare a handler `(call, params) -> outcome` as an operation under its own name.

    Params and result come from the annotations: `-> Record[SendResult] | Wait[SendResult]`. The
    arguments are fields of `Operation`; `action` and `allow` have no default.
    """
    if action not in ACTIONS:
        raise TypeError(f"unknown action {action!r}; actions are {', '.join(ACTIONS)}")

    def declare(handler: Handler[P]) -> Handler[P]:
        declared = replace(
            _bare(handler, action, guard_by_role(action, allow)),
            target=target, second=second, preposition=preposition, facts=facts, whose=whose,
            aliases=aliases, shares=shares, urgent=urgent, destructive=destructive,
            idempotent=idempotent, open_world=open_world, login=login,
        )  # fmt: skip
        declared = replace(declared, streams=streams or declared.streams)
        _check(declared, into)
        into[declared.name] = declared
        return handler

    return declare


def _bare(handler: Handler[P], action: Action, allow: Rule) -> Operation:
    """What the handler itself declares: its name, its docstring, its parameters and result."""
    hints = get_type_hints(handler)
    _, params = (hints[name] for name in inspect.signature(handler).parameters)
    outcomes = list(_outcomes(hints["return"]))
    results = {result for result, _ in outcomes}
    kinds = [kind for _, kind in outcomes if kind is not None]
    if len(results) != 1:
        raise TypeError(f"{handler.__name__} has {len(results)} result models, not one")
    (result,) = results
    return Operation(
        name=handler.__name__,
        doc=inspect.getdoc(handler) or "",
        action=action,
        allow=allow,
        handler=handler,
        params=params,
        result=result,
        writes=any(kind.writes for kind in kinds),
        changes=any(kind.changes for kind in kinds),
        streams="after" in params.model_fields and "next" in result.model_fields,
    )


def unlisted_operation(name: str, handler: Handler[Any]) -> Operation:
    """An operation of the daemon itself, which no client can call."""
    return Operation(
        name, name, ADMINISTER, OPERATOR, handler, Mutation, Result, writes=True, changes=True
    )


def _outcomes(hint: object) -> Iterator[tuple[type[Result], Any]]:
    """Each result model in a return annotation, with the outcome that carries it (None: bare)."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        for part in get_args(hint):
            yield from _outcomes(part)
    elif origin is not None:
        yield get_args(hint)[0], origin
    else:
        yield cast("type[Result]", hint), None


def _check(declared: Operation, registry: dict[str, Operation]) -> None:
    """Refuse a wrong declaration at import, before any call."""
    if declared.target is not None and declared.whose is not None:
        raise TypeError(f"{declared.name} is about an agent or about a thing, not both")
    thing = declared.whose.param if declared.whose is not None else None
    for name in filter(None, (declared.target, declared.second, thing, *declared.shares.values())):
        if name not in declared.params.model_fields:
            raise TypeError(f"{declared.name} judges {name}, which is not among its params")
    if not declared.doc:
        raise TypeError(f"{declared.name} has no docstring")
    taken = {alias for other in registry.values() for alias in (other.name, *other.aliases)}
    if twice := taken.intersection((declared.name, *declared.aliases)):
        raise TypeError(f"{sorted(twice)[0]} is declared twice")
