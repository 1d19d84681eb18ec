"""The loopback port of an agent's network, and the variables that name it to programs."""

from __future__ import annotations

import socket
from pathlib import Path

from hive_core.agent.egress_port import open_egress
from hive_core.agent.forward import ForwardPair


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def test_programs_of_an_agent_with_a_network_are_led_to_its_socket(tmp_path: Path) -> None:
    path, port = tmp_path / "egress.sock", free_port()
    environment = {"PATH": "/bin"}
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        for _ in range(2):  # a second process finds the port served
            open_egress(environment, ForwardPair(port, str(path)))
        with socket.create_connection(("127.0.0.1", port), 10) as client:
            accepted, _ = listening.accept()
            with accepted:
                client.sendall(b"connect")
                assert accepted.recv(100) == b"connect"
    proxy = f"http://127.0.0.1:{port}"
    assert environment == {
        "PATH": "/bin", "HTTPS_PROXY": proxy, "https_proxy": proxy,
        "NO_PROXY": "localhost,127.0.0.1,::1", "no_proxy": "localhost,127.0.0.1,::1",
    }  # fmt: skip


def test_without_a_network_nothing_is_said_and_no_port_is_taken(tmp_path: Path) -> None:
    environment: dict[str, str] = {}
    port = free_port()
    open_egress(environment, ForwardPair(port, str(tmp_path / "egress.sock")))
    assert environment == {}
    socket.create_server(("127.0.0.1", port)).close()
