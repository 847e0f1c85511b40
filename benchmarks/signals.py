"""Interrupt `llm` at random moments, and count how it ends.

    python -m benchmarks.signals --trials 200

Each trial starts a command in a process of its own, sends it one to six signals at random
moments, and waits for its end. Moments from before the plugin is imported are counted apart:
there Python itself says what it says.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter

from benchmarks import harness

LATE = 3.0  # seconds from the last signal; on an idle machine one is enough
CRASHED = {134, 139, -signal.SIGABRT, -signal.SIGSEGV}
COMMANDS = {
    "answer": ["-m", "smol", "Explain what a rainbow is.", "-o", "max_tokens", "400"],
    "long prompt": ["-m", "smol", "tell me " * 700, "-o", "max_tokens", "20"],
    "seeded": ["-m", "smol", "Say hi.", "-o", "seed", "1"],
    "list": ["specdec", "list"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "LLM_USER_PATH": folder, "LLM_RAISE_ERRORS": ""}
        _llm(["specdec", "add", "smol", "--target", str(harness.models() / "smollm2")], environment)
        chosen, seen = random.Random(asked.seed), Counter[str]()
        for number in range(asked.trials):
            name = list(COMMANDS)[number % len(COMMANDS)]
            what = _trial(name, chosen, environment)
            seen[what] += 1
            print(f"{number + 1}/{asked.trials} {name}: {what}", file=sys.stderr)
        whole = _llm(["logs", "list", "-n", "1"], environment).returncode == 0
    for what, count in sorted(seen.items()):
        print(f"{count:5}  {what}")
    print(f"the log can be read afterwards: {whole}")
    bad = [what for what in seen if what.startswith(("crash", "late", "traceback"))]
    raise SystemExit(1 if bad or not whole else 0)


def _llm(words: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "llm", *words]
    return subprocess.run(command, env=environment, capture_output=True, stdin=subprocess.DEVNULL)


def _trial(name: str, chosen: random.Random, environment: dict[str, str]) -> str:
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "llm", *COMMANDS[name]],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
        time.sleep(chosen.uniform(0.1, 1.5) if name == "list" else chosen.uniform(0.3, 8.0))
        signum = chosen.choice([signal.SIGINT] * 4 + [signal.SIGHUP, signal.SIGTERM])
        for _ in range(chosen.randint(1, 6)):
            process.send_signal(signum)
            time.sleep(chosen.uniform(0.0, 0.2))
        start = time.monotonic()
        try:
            status = process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            return "late: had to be killed"
        waited = time.monotonic() - start
        said.seek(0)
        text = said.read().decode(errors="replace")
    if status in CRASHED or "terminate called" in text:
        return f"crash: status {status}"
    if waited > LATE:
        return f"late: {waited:.0f} s"
    if "Traceback" in text:
        ours = f"{os.sep}llm_specdec{os.sep}" in text
        return "traceback of ours" if ours else "Python's own traceback, before llm runs"
    return f"status {status}"


if __name__ == "__main__":
    main()
