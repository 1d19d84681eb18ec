"""Whether the Nix of a host keeps builds apart (attack 29)."""

from __future__ import annotations

from pathlib import Path

from each import for_each

from hive_core.host.config.nix import fault, settings

RIGHT = "sandbox = true\nsandbox-fallback = false\n"


@for_each(
    "text, expected",
    [
        (RIGHT, ""),
        (f"# sandbox = false\n{RIGHT}# sandbox = false", ""),
        ("build-use-sandbox = true\nsandbox-fallback = false", ""),
        ("sandbox-fallback = false", ""),
        ("", "`sandbox-fallback = false`, not `true`"),
        ("sandbox = true", "`sandbox-fallback = false`, not `true`"),
        (f"{RIGHT}sandbox = false", "`sandbox = true`, not `false`"),
        (f"{RIGHT}build-use-chroot = false", "`sandbox = true`, not `false`"),
        (f"{RIGHT}sandbox = relaxed", "`sandbox = true`, not `relaxed`"),
        (f"{RIGHT}sandbox = ", "`sandbox = true`, not ``"),
    ],
)
def test_attack_29_only_a_sandbox_without_a_way_out_will_do(
    tmp_path: Path, text: str, expected: str
) -> None:
    conf = tmp_path / "nix.conf"
    conf.write_text(text)
    reason = fault(conf, tmp_path)
    assert (expected in reason) if expected else not reason


def test_attack_29_what_is_included_counts(tmp_path: Path) -> None:
    (tmp_path / "nix.conf").write_text(f"{RIGHT}include more.conf\n!include none.conf\n")
    assert fault(tmp_path / "nix.conf", tmp_path) == ""
    (tmp_path / "more.conf").write_text("sandbox = false\n")
    assert "not `false`" in fault(tmp_path / "nix.conf", tmp_path)


def test_a_file_that_includes_itself_is_read(tmp_path: Path) -> None:
    (tmp_path / "nix.conf").write_text(f"include nix.conf\n{RIGHT}")
    assert settings(tmp_path / "nix.conf")["sandbox"] == "true"


def test_a_host_without_nix_says_so(tmp_path: Path) -> None:
    assert "needs the Nix daemon" in fault(tmp_path / "nix.conf", tmp_path / "none")
