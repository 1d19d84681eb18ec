"""Configurations that the module refuses, and the messages."""

from __future__ import annotations

from typing import Any

from each import for_each
from nix.module import NIX, ask, host_with

from hive_core.model.names import RESERVED, name_fault


def refusals(host: dict[str, Any]) -> list[str]:
    asked = "map (each: each.message) (builtins.filter (each: !each.assertion) e.config.assertions)"
    messages: list[str] = ask(asked, host)
    return messages


def agents(**specs: dict[str, object]) -> dict[str, object]:
    return host_with(agents=specs)


@for_each("host, said", [
    (agents(Ann={}), "agents.Ann: the name must be 1 to 32 of a-z, 0-9 and '-', start with a letter"
     " and not end with '-'"),
    (agents(**{"a" * 33: {}}), f"agents.{'a' * 33}: the name must be 1 to 32"),
    (agents(operator={}), "agents.operator: the name is reserved"),
    (agents(ann={"parent": "bob"}),
     "agents.ann: its parent bob is neither the root agent nor declared"),
    (agents(ann={"parent": "ann"}), "agents.ann: it would be its own ancestor: ann -> ann"),
    (agents(ann={"parent": "bob"}, bob={"parent": "ann"}),
     "agents.ann: it would be its own ancestor: ann -> bob -> ann"),
    (agents(root={}), "agents.root: the root agent is described by services.hive.root"),
    (agents(ann={"image": "web"}), "agents.ann: unknown image web; known images are host, nix"),
    (agents(ann={"image": "host", "boot": True}), "agents.ann: the host image has no init"),
    (agents(ann={"secretFiles": {"a b": "/run/x"}}), "agents.ann.secretFiles: the key a b must be"),
    (agents(ann={"secretFiles": {"key": "/nix/store/abc/key"}}),
     "agents.ann.secretFiles.key: the file is in the store, which every user can read"),
    (host_with(models={"keyFiles": {"a b": "/run/x"}}), "models.keyFiles: the key a b must be"),
    (host_with(models={"keyFiles": {"k": "/nix/store/abc/key"}}),
     "models.keyFiles.k: the file is in the store, which every user can read"),
    (host_with(models={"keyFiles": {"k": "/run/x"},
                       "settings": {"providers": {"p": {"key": "j"}}}}),
     "models.keyFiles: a provider needs the key j, and there is no file for it"),
    (host_with(notify={"routes": {"My phone": {"type": "webhook"}}}),
     "notify.routes: the name My phone must be 1 to 32 of a-z"),
    (host_with(notify={"secretFiles": {"phone": "/run/x"}}),
     "notify.secretFiles: there is no route phone"),
    (host_with(notify={"routes": {"phone": {"type": "webhook"}},
                       "secretFiles": {"phone": "/nix/store/abc/key"}}),
     "notify.secretFiles.phone: the file is in the store, which every user can read"),
    (host_with(otel={"headersFile": "/nix/store/abc/key"}),
     "otel.headersFile: the file is in the store, which every user can read"),
    (host_with(agents={"a": {}, "b": {"parent": "a"}}, settings={"limits": {"depth": 2}}),
     "agents.b: deeper than 2 levels"),
    (host_with(root={"name": "-"}), "root.name: the name must be"),
    (host_with(defaultImage="web"), "images: unknown image web; known images are host, nix"),
    (host_with(images={"host": "/srv"}), "images: host and nix are hive's own and have no path"),
    (host_with(images={"Web": "/srv"}), "images.Web: the name must be of"),
    (host_with(uidStart=600000), "uidStart: must be a multiple of 65536"),
    (host_with(settings={"paths": {"state": "/srv"}}), "settings.paths: the root helper uses"),
    ({**host_with(), "users": {"users": {"joe": {"name": "joe", "uid": 805306368 + 9}}}},
     "uidStart: the uids of agents (805306368 to 1460666367) overlap with those of users.users"),
    ({**host_with(), "users": {"users": {"joe": {
        "name": "joe", "subUidRanges": [{"startUid": 805306300, "count": 69}]}}}},
     "overlap with those of users.users.joe (805306300 to 805306368)"),
    ({**host_with(), "nix": {"settings": {"sandbox": False}}},
     "defaultImage: the nix image needs nix.settings.sandbox = true"),
    ({**host_with(), "nix": {"settings": {"sandbox": "relaxed"}}},
     "defaultImage: the nix image needs nix.settings.sandbox = true"),
    ({**host_with(), "nix": {"settings": {"sandbox-fallback": True}}},
     "defaultImage: the nix image needs nix.settings.sandbox-fallback = false"),
    ({**host_with(), "nix": {"settings": {"trusted-users": ["root", "*"]}}},
     'defaultImage: nix.settings.trusted-users must not hold "*"'),
    ({**host_with(), "nix": {"settings": {"trusted-users": ["hive"]}}},
     "user: nix.settings.trusted-users must not hold hive"),
    ({**host_with(), "system": {"etc": {"overlay": {"enable": True, "mutable": False}}}},
     "enable: system.etc.overlay.mutable must be true"),
    ({**host_with(), "boot": {"isContainer": True}}, "enable: hive creates containers and"),
])  # fmt: skip
def test_an_invalid_configuration_is_refused_with_a_reason(host: dict[str, Any], said: str) -> None:
    messages = refusals(host)
    ours = [message for message in messages if message.startswith("services.hive.")]
    assert any(said in message for message in ours), messages


def test_a_valid_host_is_accepted() -> None:
    tree = {"ann": {}, "bob": {"parent": "ann"}, "eve": {"parent": ""}, "kim": {"parent": "root"}}
    host = {
        **host_with(agents=tree, images={"web": "/srv/web"}, root={"image": "web"}),
        "users": {"users": {"joe": {"name": "joe", "uid": 1000,
                                    "subUidRanges": [{"startUid": 100000, "count": 65536}]}}},
    }  # fmt: skip
    assert refusals(host) == []


def test_a_host_without_nix_images_needs_no_sandbox() -> None:
    host = {**host_with(defaultImage="host"), "nix": {"settings": {"sandbox": False}}}
    assert refusals(host) == []


def test_names_follow_the_rules_of_the_daemon() -> None:
    names = ["a", "a1", "1a", "a-b", "a--b", "a-", "-a", "A", "a_b", "a" * 32, "a" * 33, "", "ä",
             "a b", "a\n", *sorted(RESERVED)]  # fmt: skip
    asked = f"map (import {NIX}/names.nix {{ inherit (s) lib; }}).fault e.config.names"
    assert ask(asked, {"names": names}) == [name_fault(name) for name in names]


def test_a_missing_optional_setting_is_a_warning() -> None:
    def warnings_of(**options: object) -> list[str]:
        messages: list[str] = ask("e.config.warnings", host_with(**options))
        return messages

    assert [warning.split(" ")[0] for warning in warnings_of()] == [
        "services.hive.meta.flakeInputs", "services.hive.operators"
    ]  # fmt: skip
    inputs = {"nixpkgs": "path:/a", "hive": "path:/b"}
    assert warnings_of(operators=["alice"], meta={"flakeInputs": inputs}) == []
