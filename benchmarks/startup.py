"""What the plugin adds to `llm --help`: `python -m benchmarks.startup [RUNS]`.

Runs with and without the plugin are interleaved; what it adds is the median over pairs. CPU time
(user and system) is the steadier figure where other work shares the machine.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

WITHOUT, WITH = "", "llm-specdec"  # values of LLM_LOAD_PLUGINS
HELP = [sys.executable, "-m", "llm", "--help"]


def one_run(plugins: str, user_path: str) -> dict[str, float]:
    """Wall and CPU milliseconds of one `llm --help`."""
    environment = {**os.environ, "LLM_LOAD_PLUGINS": plugins, "LLM_USER_PATH": user_path}
    start = time.perf_counter()
    process = subprocess.Popen(HELP, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    if status != 0:
        sys.exit("llm --help failed")
    return {"wall": wall * 1e3, "CPU": (used.ru_utime + used.ru_stime) * 1e3}


def main(runs: int) -> None:
    with tempfile.TemporaryDirectory() as user_path:
        one_run(WITH, user_path)  # warms the disk cache
        pairs = [(one_run(WITHOUT, user_path), one_run(WITH, user_path)) for _ in range(runs)]
    for clock in ("wall", "CPU"):
        without = statistics.median(a[clock] for a, _ in pairs)
        added = statistics.median(b[clock] - a[clock] for a, b in pairs)
        print(
            f"{clock:5} without {without:7.1f} ms · added {added:5.1f} ms"
            f" · ratio {1 + added / without:.3f} · median of {runs}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 21)
