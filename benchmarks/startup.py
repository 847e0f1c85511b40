"""What the plugin adds to `llm --help`: `python -m benchmarks.startup [RUNS]`.

Runs with and without the plugin are interleaved; the difference is the median over pairs.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

PLUGINS = {"without": "", "with": "llm-specdec"}
HELP = [sys.executable, "-m", "llm", "--help"]


def seconds(plugins: str, user_path: str) -> float:
    environment = {**os.environ, "LLM_LOAD_PLUGINS": plugins, "LLM_USER_PATH": user_path}
    start = time.perf_counter()
    subprocess.run(HELP, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main(runs: int) -> None:
    taken: dict[str, list[float]] = {name: [] for name in PLUGINS}
    with tempfile.TemporaryDirectory() as user_path:
        for _ in range(runs + 1):
            for name, plugins in PLUGINS.items():
                taken[name].append(seconds(plugins, user_path) * 1e3)
    without, with_ = taken["without"][1:], taken["with"][1:]  # the first pair warms the disk cache
    added = statistics.median(b - a for a, b in zip(without, with_, strict=True))
    for name, times in (("without", without), ("with", with_)):
        print(f"{name:8}{statistics.median(times):8.1f} ms median of {runs}")
    print(f"added   {added:8.1f} ms · ratio {1 + added / statistics.median(without):.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 21)
