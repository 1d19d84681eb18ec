"""`scripts/install` on a host without a network, which every lab is."""

from __future__ import annotations

import pytest
from e2e.labhost import CHECKOUT, Lab

pytestmark = pytest.mark.lab


def test_installing_without_a_network_fails_in_one_line_and_changes_nothing(lab: Lab) -> None:
    # A host may offer packages in a folder, and may have hive already; this one does neither.
    lab.run(["rm", "-rf", "/etc/pip.conf", "/usr/local/lib/hive"])
    done = lab.run([str(CHECKOUT / "scripts/install")], check=False, timeout=300)
    assert done.returncode == 1, done
    *progress, last = done.stderr.splitlines()
    assert progress == [
        "install: installing hive into /usr/local/lib/hive",
        "install: fetching the Python packages that changed (half a minute for all)",
    ], done.stderr
    assert last.startswith("install: cannot fetch Python packages, so hive was not changed"), last
    assert "ERROR: " in last
    assert not lab.path("usr/local/lib/hive").exists()
    assert not lab.path("usr/local/bin/hived").is_symlink()
