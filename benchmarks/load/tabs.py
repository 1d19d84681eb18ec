"""FOLDER PORT EVERY, then cookies on stdin: each EVERY seconds an agent is made, and each login's
tab of the tree loads its rows a second later, as `live.js` does, until stdin ends.

At the end it prints how many agents it made, how many times rows were loaded, and how many seconds
99 of 100 of these took at most.
"""

import select
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import quantiles

from benchmarks.services.dashboard import Dashboard
from hive_core.varlink import Client

AGAIN = 1.0
AT_ONCE = 10


def main(folder: Path, port: int, every: float) -> tuple[int, int, float]:
    web, cookies = Dashboard(0, port, folder), sys.stdin.readline().split("\t")
    made, loads = 0, list[float]()
    with Client(str(folder / "operator.sock")) as client, ThreadPoolExecutor(AT_ONCE) as pool:
        while not select.select([sys.stdin], [], [], every)[0]:
            client.call("org.hive.Broker.Spawn", {"name": f"new-{made}", "parent": "root"})
            made += 1
            time.sleep(AGAIN)
            answers = pool.map(lambda cookie: web.page("/tree/rows", cookie), cookies)
            loads += [seconds for body, seconds in answers if body]
    return made, len(loads), quantiles(loads, n=100)[98]


if __name__ == "__main__":
    print(*main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])), flush=True)
