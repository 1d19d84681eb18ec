"""The first page of the tree in Chromium: from the start of the navigation until a key moves on.

Both daemons serve no browser before, and Chromium has nothing of the page in its cache.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from fixtures.chromium import Browser, chromium

from benchmarks.report.rows import Row, with_aim
from benchmarks.services.dashboard import Dashboard, serving_dashboard

PROGRAMS = (Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver"))
# It presses `j` until a row has the focus: then the rows are there, and keys are handled.
_PRESS = """
const timer = setInterval(() => {
  if (!document.querySelector("main .agent-row")) return;
  window.withRows ??= performance.now();
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "j", bubbles: true }));
  if (!document.activeElement?.closest("main .agent-row")) return;
  clearInterval(timer);
  window.withKeys = performance.now();
}, 1);
"""


def interactive_rows(folder: Path, agents: int, most_ms: int) -> Iterator[Row]:
    """Before the hived whose sockets are in `folder`. Without Chromium the row says so."""
    name = f"interactive in Chromium, {agents:,} agents"
    if not all(program.exists() for program in PROGRAMS):
        yield with_aim({"name": name, "value": "no Chromium is installed"}, f"< {most_ms} ms",
                       at_most=most_ms)  # fmt: skip
        return
    with TemporaryDirectory() as profile, chromium(Path(profile)) as browser:
        browser.run_first(_PRESS)
        with serving_dashboard(folder) as web:
            log_in(browser, web)
            first = load_page(browser, web)
            again = load_page(browser, web)
    yield with_aim({"name": name, "value": first[1], "unit": "ms"}, f"< {most_ms} ms",
                   at_most=most_ms)  # fmt: skip
    yield {"name": f"its rows are there, {agents:,} agents", "value": first[0], "unit": "ms"}
    yield {"name": f"the same page again in Chromium, {agents:,} agents", "value": again[1],
           "unit": "ms"}  # fmt: skip


def log_in(browser: Browser, web: Dashboard) -> None:
    """Give the browser the cookie of a login, so that no page is loaded before the first one."""
    name, _, value = web.log_in(0).partition("=")
    browser.command("Network.setCookie", {
        "name": name, "value": value, "url": f"https://localhost:{web.port}/", "path": "/",
        "secure": True, "httpOnly": True, "sameSite": "Strict",
    })  # fmt: skip


def load_page(browser: Browser, web: Dashboard) -> tuple[float, float]:
    """Milliseconds until its rows are there, and until a key is handled."""
    browser.open("about:blank")
    browser.open(f"http://localhost:{web.port}/tree")
    browser.until("window.withKeys")
    rows, keys = browser.run("return [window.withRows, window.withKeys]")
    return float(rows), float(keys)
