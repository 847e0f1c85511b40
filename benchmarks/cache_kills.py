"""Kill -9 a process that writes the prefix cache, at random moments, again and again.

    python -m benchmarks.cache_kills [--runs 200]

After every kill all entries must be whole and all files together within the cap.
"""

import argparse
import tempfile
from pathlib import Path

from fixtures.cache_processes import KEY, check, entry, kill_writers, tier


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "cache")
        found = kill_writers(root, arguments.runs)
        tier(root).put(KEY, entry(1))
        left = check(root)["half_written"]
    print(
        f"{found['runs']} kills; a half-written file was left {found['half_written']} times; "
        f"{found['entries']} entries read afterwards, all whole; within the cap every time; "
        f"{left} half-written files after the next write"
    )


if __name__ == "__main__":
    main()
