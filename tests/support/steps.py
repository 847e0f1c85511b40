"""Work in a unit that is the same on every machine."""

import sys


def steps_of(work):
    """Python's own steps in `work()`."""
    count = 0

    def step(frame, event, arg):
        nonlocal count
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        count += event == "opcode"
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
