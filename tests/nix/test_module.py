"""The NixOS module: the same units as on Debian, and files that the daemon reads."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from typing import Any

import pytest
from each import for_each
from nix.module import HERE, NIX, STORE, Refused, ask, assignments, host_with, units

from hive_core.cli.config.declare import with_sizes as declare_with_sizes
from hive_core.cli.host.install import layout
from hive_core.cli.host.install.login_services import SERVICES
from hive_core.cli.host.setup import setup
from hive_core.model.agents.agent import CLIS
from hive_core.model.config.models import parse_models
from hive_core.model.config.settings import Settings
from hive_core.operations.agents.spawn import SpawnParams
from nix import options_page

SHARED = (
    "hived.service", "hive-privd.service", "hived.slice", "hive-model.service",
    "hive-model.socket", "hive-small.service", "hive-small.socket", "hive-egress.service",
    "hive-web.service", "hive-web.socket", "hive-notify.service",
    "hive-otel.service",
)  # fmt: skip
# What only NixOS has or needs: paths of the store, and how a switch goes about a unit.
OURS = {
    ("Service", "Environment"), ("Service", "X-ReloadIfChanged"), ("Service", "X-StopIfChanged"),
    ("Service", "X-RestartIfChanged"), ("Unit", "X-Reload-Triggers"),
}  # fmt: skip
DEBIAN = layout.Installation(
    bin=f"{STORE}/bin", python=f"{STORE}/lib/hive/usr/bin/python3",
    package=f"{STORE}/lib/hive/hive_core", small=f"{STORE}-small",
)  # fmt: skip


def files(**options: object) -> dict[str, str]:
    files_of_etc = ask("e.config.environment.etc", host_with(**options))
    return {name: entry["text"] for name, entry in files_of_etc.items()}


def settings(**options: object) -> Settings:
    return Settings.model_validate(tomllib.loads(files(**options)["hive/hive.toml"]))


def test_every_file_is_nix() -> None:
    files = [*NIX.rglob("*.nix"), NIX.parent / "flake.nix"]
    subprocess.run(["nix-instantiate", "--parse", *files], check=True, stdout=subprocess.DEVNULL)


def test_the_units_equal_those_that_setup_writes_on_debian() -> None:
    """One source: a setting of a template is in both, or the test fails."""
    debian = {item.path.name: item.text for item in layout.unit_files(DEBIAN)}
    nixos = units()
    for name in SHARED:
        ours, theirs = assignments(nixos[name]), assignments(debian[name])
        variables = theirs.pop(("Service", "Environment"), [])
        assert {key: ours[key] for key in ours.keys() - OURS} == {
            key: [" ".join(" ".join(values).split())] if key[0] == "Unit" else values
            for key, values in theirs.items()
        }, name
        for item in " ".join(variables).split():
            assert f'"{item}"' in ours["Service", "Environment"]


def test_the_module_has_every_unit_template() -> None:
    assert {template.name for template in layout.templates()} == {*SHARED, "hive.tmpfiles"}


def test_the_directories_equal_those_that_setup_makes() -> None:
    (debian,) = (file for file in layout.unit_files(DEBIAN) if file.path.parent == layout.TMPFILES)
    lines = [line for line in debian.text.splitlines() if line and not line.startswith("#")]
    made = ask("e.config.systemd.tmpfiles.rules")
    assert made == [
        *lines, "d /nix/var/nix/profiles/hive 0755 hive hive",
        "d /etc/hive/keys 0750 root hive-model", "d /etc/hive/notify 0700 root root",
        "d /etc/hive/otel 0700 root root",
    ]  # fmt: skip


@for_each("name", [*SHARED, "hive-declare.service"])
def test_a_unit_changes_only_with_its_golden_file(name: str) -> None:
    """`python tests/nix/golden.py` writes them anew, for eyes to read in the diff."""
    assert units()[name] == (HERE / "golden" / name).read_text()


@for_each("name, most", [
    ("hived", 2.0), ("hive-privd", 5.0), ("hive-declare", 2.0), ("hive-model", 2.0),
    ("hive-small", 2.0), ("hive-egress", 2.0), ("hive-web", 2.0), ("hive-notify", 2.0),
    ("hive-otel", 2.0),
])  # fmt: skip
def test_the_exposure_of_a_unit_stays_within_its_bound(name: str, most: float) -> None:
    """By the measure of `systemd-analyze security`; hive-privd has to mount."""
    ask_systemd = ["systemd-analyze", "security", "--offline=true", "--no-pager"]
    unit = HERE / "golden" / f"{name}.service"
    done = subprocess.run([*ask_systemd, unit], capture_output=True, text=True, check=True)
    assert float(done.stdout.rpartition(f"{name}.service: ")[2].split()[0]) <= most


def test_a_switch_reloads_the_daemon_and_never_restarts_it() -> None:
    service = ask("e.config.systemd.services.hived")
    assert (service["restartIfChanged"], service["reloadIfChanged"]) == (False, True)
    first, second = service["serviceConfig"]["ExecReload"]
    assert first.endswith("/bin/hive config check")
    assert "kill -HUP" in second
    mark = assignments(units()["hived.service"])["Unit", "X-Reload-Triggers"]
    other = ask('(s.units e.config)."hived.service"', host_with(deploy={"healthWindow": 31}))
    assert assignments(other)["Unit", "X-Reload-Triggers"] != mark


def test_without_options_the_daemon_has_its_own_defaults() -> None:
    """Those of NixOS apart: images are made by Nix there."""
    assert settings() == Settings(default_image="nix", images={"host": None, "nix": None})


def test_each_option_reaches_the_daemon() -> None:
    daemon_settings = settings(
        defaultImage="web", images={"web": "/srv/web"}, uidStart=655360,
        root={"name": "boss", "boot": True, "command": ["say", 'a "b"\n$c'], "autostart": False},
        meta={"flakeInputs": {"nixpkgs": "path:/x"}},
        approval={"pending": 2, "perDay": 3, "expires": 60},
        deploy={"healthWindow": 1.5, "startTimeout": 9, "switchTimeout": 8, "evalTimeout": 7,
                "buildTimeout": 6, "firstWave": 2, "secondWave": 0.5},
        retention={"generations": 3, "archive": 5}, web={"origins": ["https://h.example"]},
        notify={"routes": {"phone": {"type": "ntfy", "url": "https://ntfy.sh", "topic": "t",
                                     "classes": ["urgent"]}}},
        otel={"url": "http://localhost:4318/v1/traces", "service": "tower", "texts": True},
        settings={"limits": {"agents": 7}},
    )  # fmt: skip
    assert daemon_settings.model_dump(exclude_unset=True, mode="json") == {
        "default_image": "web", "images": {"host": None, "nix": None, "web": "/srv/web"},
        "uid_start": 655360,
        "root": {"name": "boss", "boot": True, "command": ["say", 'a "b"\n$c'], "autostart": False},
        "nix": {"inputs": {"nixpkgs": "path:/x"}, "system": "x86_64-linux"},
        "approvals": {"pending": 2, "a_day": 3, "expires": 60.0},
        "deploy": {"window": 1.5, "generations": 3, "first_wave": 2, "second_wave": 0.5,
                   "evaluation": 7.0, "build": 6.0, "switch": 8.0},
        "grace": {"start": 9.0}, "retention": {"archive": 5.0}, "limits": {"agents": 7},
        "web": {"origins": ["https://h.example"]},
        "notify": {"routes": {"phone": {"type": "ntfy", "url": "https://ntfy.sh", "topic": "t",
                                        "classes": ["urgent"]}}},
        "otel": {"url": "http://localhost:4318/v1/traces", "service": "tower", "texts": True},
    }  # fmt: skip


def test_files_beside_the_settings() -> None:
    written = files(
        images={"web": "/srv/web"}, approval={"allowedSigners": "alice ssh-ed25519 AAAA"}
    )
    assert written["hive/images"] == "web /srv/web\n"
    assert written["hive/allowed_signers"] == "alice ssh-ed25519 AAAA"
    assert "hive/allowed_signers" not in files()


def test_operators_have_a_group_and_the_daemon_an_account() -> None:
    users = ask("e.config.users", host_with(operators=["alice"]))
    assert users["groups"] == {
        "hive": {}, "hive-model": {}, "hive-small": {}, "hive-egress": {},
        "hive-web": {}, "hive-notify": {}, "hive-otel": {},
        "hive-login": {"members": list(layout.LOGIN_USERS)},
        "hive-operator": {"members": ["alice"]},
    }  # fmt: skip
    assert set(users["users"]) == set(layout.USERS)
    assert users["users"]["hive"]["isSystemUser"]
    assert users["users"]["hive"]["extraGroups"] == ["systemd-journal"]


def test_a_build_has_its_sandbox_unless_the_host_says_otherwise() -> None:
    assert ask("e.config.nix.settings") == {"sandbox": True, "sandbox-fallback": False}


def test_a_disabled_module_adds_nothing() -> None:
    host = {"services": {"hive": {"agents": {"ann": {"parent": "nobody"}}}}}
    assert ask("e.config // { services = { }; }", host) == {
        "boot": {}, "nix": {"settings": {}}, "services": {}, "system": {}, "users": {"users": {}},
    }  # fmt: skip


def test_declared_agents_use_the_parameters_of_the_operation() -> None:
    agents: dict[str, Any] = {
        "lead": {"role": "lead", "title": "Leads", "limits": {"memoryMax": 1 << 30, "disk": 99}},
        "hand": {"parent": "lead", "capabilities": ["secret:key"], "command": ["sleep", "1"]},
    }
    declared = json.loads(files(agents=agents)["hive/agents.json"])
    common = {"boot": False, "command": [], "title": "", "limits": {}, "role": "agent"}
    assert declared == {
        "lead": {**common, "role": "lead", "title": "Leads",
                 "limits": {"memory_max": 1 << 30, "disk": 99}},
        "hand": {**common, "parent": "lead", "capabilities": ["secret:key"],
                 "command": ["sleep", "1"]},
    }  # fmt: skip
    assert "hive-declare.service" in ask("s.units e.config", host_with(agents=agents))
    assert "hive-declare.service" not in ask("s.units e.config")


def test_declared_agents_have_the_format_of_hive_declare() -> None:
    agents: dict[str, Any] = {
        "ann": {"tier": "tactical", "wakes": True, "tools": ["read", "bash(make *)"],
                "limits": {"memoryMax": "512M", "memoryHigh": 1 << 28, "disk": "2G"},
                "secretFiles": {"api-key": "/run/secrets/api-key"}},
    }  # fmt: skip
    (spec,) = json.loads(files(agents=agents)["hive/agents.json"]).values()
    assert spec.items() >= {
        "tier": "tactical", "wakes": True, "tools": ["read", "bash(make *)"],
        "add_capabilities": ["secret:api-key"],
        "limits": {"memory_max": "512M", "memory_high": 1 << 28, "disk": "2G"},
    }.items()  # fmt: skip
    SpawnParams.model_validate({**declare_with_sizes("ann", spec), "name": "ann"})


def test_secret_files_reach_only_their_agents() -> None:
    """systemd reads them as root; their values are in no unit, no argument and no file of /etc."""
    secrets = {"api-key": "/run/secrets/api-key", "token": "/run/agenix/token"}
    host = host_with(agents={"ann": {"secretFiles": secrets}, "bob": {}})
    service = assignments(ask('(s.units e.config)."hive-secrets.service"', host))
    assert service["Service", "LoadCredential"] == [
        "ann.api-key:/run/secrets/api-key", "ann.token:/run/agenix/token",
    ]  # fmt: skip
    assert [line.partition("/bin/")[2] for line in service["Service", "ExecStart"]] == [
        "hive secret set ann api-key --file %d/ann.api-key",
        "hive secret set ann token --file %d/ann.token",
    ]
    assert service["Service", "User"] == ["hive"]
    assert "hive-secrets.service" not in ask("s.units e.config", host_with(agents={"bob": {}}))


def test_models_are_settings_and_their_keys_reach_one_service_only() -> None:
    """systemd reads the keys as root; without files of them there are those of `hive model key`."""
    provider = {"wire": "messages", "base_url": "https://api.example.org/v1", "key": "mine"}
    models = {
        "settings": {
            "providers": {"p": provider}, "models": {"m": {"provider": "p", "name": "m-1"}},
        },
        "keyFiles": {"mine": "/run/secrets/mine"},
    }  # fmt: skip
    host = host_with(models=models)
    written = ask("e.config.environment.etc", host)["hive/models.toml"]["text"]
    assert parse_models(written).default_alias == "m"
    assert "/run/secrets" not in written
    all_units = ask("s.units e.config", host)
    service = assignments(all_units.pop("hive-model.service"))
    assert service["Service", "LoadCredential"] == ["mine:/run/secrets/mine"]
    assert service["Service", "ExecStart"][0].endswith("/bin/hive-model --keys %d")
    assert not any("/run/secrets" in unit for unit in all_units.values())
    assert "hive/models.toml" not in files()
    assert assignments(units()["hive-model.service"])["Service", "ExecStart"] == [
        f"{STORE}/bin/hive-model"
    ]


ROUTE = {"type": "webhook", "url": "https://x.example"}


def test_secrets_of_notices_and_traces_reach_one_service_each() -> None:
    host = host_with(
        notify={"routes": {"hook": ROUTE}, "secretFiles": {"hook": "/run/secrets/hook"}},
        otel={"url": "https://o.example", "headersFile": "/run/secrets/headers"},
    )
    all_units = ask("s.units e.config", host)
    credentials = {
        name: assignments(all_units.pop(f"{name}.service"))["Service", "LoadCredential"]
        for name in ("hive-notify", "hive-otel")
    }
    assert credentials == {
        "hive-notify": ["notify:/etc/hive/notify", "notify_hook:/run/secrets/hook"],
        "hive-otel": ["otel:/etc/hive/otel", "otel_headers:/run/secrets/headers"],
    }
    assert not any("/run/secrets" in unit for unit in all_units.values())
    assert "/run/secrets" not in ask("e.config.environment.etc", host)["hive/hive.toml"]["text"]


@for_each("options", [
    {"notify": {"routes": {"hook": ROUTE}}}, {"otel": {"url": "https://o.example"}},
    {"settings": {"notify": {"routes": {"hook": ROUTE}}}},
])  # fmt: skip
def test_a_receiver_makes_the_tokens_that_setup_makes_on_debian(options: dict[str, Any]) -> None:
    host = host_with(**options)
    unit = assignments(ask('(s.units e.config)."hive-logins.service"', host))
    assert unit["Unit", "Before"] == ["hive-notify.service hive-otel.service"]
    assert unit["Unit", "Requires"] == ["hived.service"]
    (command,) = unit["Service", "ExecStart"]
    assert command == f"{STORE}/bin/hive setup --tokens"
    parameters = setup.params
    assert "--tokens" in [name for parameter in parameters for name in parameter.opts]
    # Only root reads the files, and one that ran once would not run again.
    assert not {("Service", "User"), ("Service", "RemainAfterExit")} & unit.keys()
    folders = {str(service.token.parent) for service in SERVICES}
    assert set(unit["Service", "ReadWritePaths"][0].split()) == folders
    assert ask("e.config.systemd.services.hive-logins.startAt", host) == "weekly"


def test_without_a_receiver_no_token_is_made() -> None:
    assert "hive-logins.service" not in ask("s.units e.config")


def test_a_switch_restarts_the_services_whose_settings_change() -> None:
    """They read hive.toml at their start alone."""

    def triggers(**options: object) -> list[object]:
        all_units = ask("s.units e.config", host_with(**options))
        return [
            assignments(all_units[f"{name}.service"]).get(("Unit", "X-Restart-Triggers"))
            for name in ("hive-notify", "hive-otel")
        ]

    routes: dict[str, Any] = {"notify": {"routes": {"hook": ROUTE}}}
    receiver = {"otel": {"url": "https://o.example"}}
    assert triggers() == [None, None]
    notify, otel = triggers(**routes, **receiver)
    assert triggers(**routes, otel={"url": "https://p.example"})[0] == notify
    assert triggers(**routes, **receiver, web={"origins": ["https://h.example"]}) != [notify, otel]
    quiet = {"routes": {"hook": {**ROUTE, "quiet": "22:00-07:00 UTC"}}}
    assert triggers(notify=quiet, **receiver)[0] != notify
    assert triggers(notify=quiet, **receiver)[1] == otel


def test_the_embedded_model_and_the_runtime_are_optional() -> None:
    plain = ask("s.units e.config")
    assert not any(name.startswith("hive-small") for name in plain)
    assert f"HIVE_RUNTIME={STORE}-runtime" in plain["hive-privd.service"]
    without = ask('(s.units e.config)."hive-privd.service"', host_with(models={"runtime": None}))
    assert "HIVE_RUNTIME=/var/empty" in without


def test_the_coding_clis_are_those_that_the_option_names() -> None:
    unit = '(s.units e.config)."hive-privd.service"'
    assert "HIVE_CLIS=/var/empty" in ask(unit)
    assert f"HIVE_CLIS={STORE}-clis" in ask(unit, host_with(runtimes=["claude", "codex"]))
    with pytest.raises(Refused, match="runtimes' is not of type"):
        ask(unit, host_with(runtimes=["cursor"]))
    names = ask(f"(import {NIX}/names.nix {{ inherit (s) lib; }}).runtimes")
    assert names == [row.value for row in CLIS]


def test_the_wheels_of_the_embedded_model_are_those_of_the_lock() -> None:
    text = (NIX / "small.nix").read_text()
    lock = (NIX.parent / "requirements/small.lock").read_text()
    hashes = re.findall(r'hash = "([0-9a-f]{64})"', text)
    assert len(hashes) == 2
    assert all(f"sha256:{value}" in lock for value in hashes)
    for name, version in re.findall(r'pname = "(\w+)";\s+version = "([^"]+)"', text):
        assert f"{name.replace('_', '-')}=={version} " in lock


@for_each("options, said", [
    ({"agents": {"ann": {"limits": {"memoryMax": "lots"}}}}, "memoryMax' is not of type"),
    ({"agents": {"ann": {"tier": "royal"}}}, "agents.ann.tier' is not of type"),
    ({"enabled": True}, "services.hive.enabled' does not exist"),
    ({"user": "root"}, "services.hive.user' is read-only"),
    ({"deploy": {"healthWindow": -1}}, "services.hive.deploy.healthWindow' is not of type"),
    ({"deploy": {"secondWave": 2}}, "services.hive.deploy.secondWave' is not of type"),
    ({"agents": {"ann": {"role": "boss"}}}, "services.hive.agents.ann.role' is not of type"),
    ({"agents": {"ann": {"extraNspawnFlags": []}}}, "agents.ann.extraNspawnFlags' does not exist"),
    ({"agents": {"ann": {"capabilities": ["every thing"]}}}, "capabilities' is not of type"),
    ({"meta": {"flakeInputs": {"x": 'a"; b'}}}, "services.hive.meta.flakeInputs.x' is not"),
])  # fmt: skip
def test_types_are_strict(options: dict[str, object], said: str) -> None:
    with pytest.raises(Refused, match=said):
        ask("[ e.config.environment.etc e.config.users ]", host_with(**options))


def test_the_options_page_is_up_to_date() -> None:
    """`scripts/generate` writes it."""
    assert options_page.FILE.read_text(encoding="utf-8") == options_page.page()


def test_the_configuration_of_the_guide_is_accepted() -> None:
    guide = (NIX.parent / "docs" / "how-to" / "nixos.md").read_text()
    blocks = re.findall(r"^```nix\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    (machine,) = (item for item in blocks if "services.hive" in item)
    for item in blocks:
        subprocess.run(["nix-instantiate", "--parse", "-E", item], check=True, capture_output=True)
    template = "f: let e = s.evaluate (import {}/module.nix) (f {{ }}); in {}"
    expression = "{ inherit (e.config) assertions warnings; etc = e.config.environment.etc; }"
    evaluated = ask(f"({template.format(NIX, expression)}) ({machine})")
    assert [item for item in evaluated["assertions"] if not item["assertion"]] == []
    assert evaluated["warnings"] == []
    written = {name: item["text"] for name, item in evaluated["etc"].items()}
    told_settings = Settings.model_validate(tomllib.loads(written["hive/hive.toml"]))
    assert told_settings.deploy.window == 60
    assert told_settings.all_limits.memory_max == 16 << 30
    assert sorted(json.loads(written["hive/agents.json"])) == ["coder", "planner"]
