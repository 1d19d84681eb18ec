"""Checks of `hive doctor` about models: their settings, keys, and environments."""

from __future__ import annotations

import grp
import pwd
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hive_core.cli.core.units import quantity
from hive_core.cli.host.finding import Finding, fail, ok, warn
from hive_core.cli.host.install import layout
from hive_core.cli.host.install.steps import NIXOS
from hive_core.errors import InvalidArgument

if TYPE_CHECKING:
    from hive_core.model.config.models import ModelsFile

_PATIENCE: Final = 30.0  # seconds for an interpreter to start
_KEY_MODE: Final = 0o640
# The unit of the embedded model sees none of these.
_HIDDEN: Final = ("/home", "/root", "/run/user", "/tmp", "/var/tmp", layout.HOME)  # noqa: S108


@dataclass(frozen=True)
class ModelPlaces:
    """Where the parts lie on this host."""

    models: Path = Path(layout.MODELS)
    keys: Path = Path(layout.KEYS)
    runtime: Path = Path(layout.RUNTIME)
    small: Path = Path(layout.SMALL)


def check_models() -> Iterator[Finding]:
    """All checks about models. On NixOS the environments are parts of the system."""
    places = ModelPlaces()
    yield from check_settings(places)
    if not NIXOS.exists():
        yield from check_runtime(places)
        yield from check_embedded(places)


def check_settings(places: ModelPlaces) -> Iterator[Finding]:
    """models.toml, the keys, and a file of the operator's own that it names."""
    try:
        models = _read_models(places)
    except (OSError, ValueError, InvalidArgument) as error:
        yield fail("models", f"{places.models}: {error}")
        return
    yield ok(
        "models",
        f"{quantity(len(models.models), 'model')}, default {models.default_alias or 'none'}",
    )
    yield from _keys(models, places.keys)
    yield from _own_file(models)


def _read_models(places: ModelPlaces) -> ModelsFile:
    from hive_core.model.config.models import parse_models  # noqa: PLC0415 - pydantic is slow

    file = places.models
    return parse_models(file.read_text(encoding="utf-8") if file.exists() else "")


def _keys(models: ModelsFile, folder: Path) -> Iterator[Finding]:
    try:
        files = {file.name: file.lstat() for file in folder.iterdir()}
    except PermissionError:
        yield warn("keys", f"only root can check {folder}")
        return
    except FileNotFoundError:
        return  # reported with the directories
    for name, provider in models.providers.items():
        if provider.key is not None and provider.key not in files:
            yield fail("keys", f"provider {name} needs `hive model key set {provider.key}`")
    try:
        group = grp.getgrnam(layout.MODEL_USER).gr_gid
    except KeyError:
        return  # reported with the users
    for key, facts in files.items():
        mode = stat.S_IMODE(facts.st_mode)
        right = (facts.st_uid, facts.st_gid, mode) == (0, group, _KEY_MODE)
        wanted = f"root:{layout.MODEL_USER} {_KEY_MODE:o}"
        yield ok("keys", key) if right else fail("keys", f"{folder / key} is not {wanted}")


def _own_file(models: ModelsFile) -> Iterator[Finding]:
    """Whether the embedded model's user can read a file of the operator's."""
    for provider in models.providers.values():
        if provider.kind == "gguf" and provider.path is not None:
            fault = _file_fault(Path(provider.path))
            yield (
                fail("models", f"{provider.path} {fault}") if fault else ok("models", provider.path)
            )


def _file_fault(path: Path) -> str:
    if any(path.is_relative_to(place) for place in _HIDDEN):
        return "is in a directory that hive-small.service does not see; move it, as to /srv"
    try:
        facts = path.stat()
        user = pwd.getpwnam(layout.SMALL_USER)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except KeyError:
        return ""  # reported with the users
    is_readable = facts.st_mode & stat.S_IROTH or (
        facts.st_gid == user.pw_gid and facts.st_mode & stat.S_IRGRP
    )
    return "" if is_readable else f"cannot be read by the user {layout.SMALL_USER}"


def check_runtime(places: ModelPlaces) -> Iterator[Finding]:
    """Whether containers have what a session imports, for the interpreter that they share."""
    folder = places.runtime
    if not (folder / ".complete").exists():
        yield fail(
            "runtime", f"{folder} is missing: agents cannot call models; run scripts/install"
        )
        return
    built = (folder / ".python").read_text(encoding="utf-8").strip()
    code = 'import sys; print("%d.%d" % sys.version_info[:2])'
    done = subprocess.run(
        ["/usr/bin/python3", "-Ic", code],
        capture_output=True, text=True, check=False, timeout=_PATIENCE,
    )  # fmt: skip
    own = done.stdout.strip()
    if built == own:
        yield ok("runtime", f"{folder} for Python {built}")
    else:
        text = f"{folder} is for Python {built}, and /usr/bin/python3 is {own}: run scripts/install"
        yield fail("runtime", text)


def check_embedded(places: ModelPlaces) -> Iterator[Finding]:
    """Whether the embedded model is installed; a host without it uses other models."""
    if (places.small / "bin/python").exists():
        yield ok("embedded", str(places.small))
        return
    try:
        models = _read_models(places)
    except (OSError, ValueError, InvalidArgument):
        return  # reported with the settings
    text = "the embedded model is not installed: run scripts/install without --no-small"
    is_used = any(models.provider_of(alias).kind == "gguf" for alias in models.models)
    if not is_used:
        yield ok("embedded", "not installed, and no model needs it")
    elif models.models.keys() == {"hive-small"}:  # while models.toml names no other
        yield warn("embedded", text)
    else:
        yield fail("embedded", text)
