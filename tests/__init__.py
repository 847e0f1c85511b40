"""Tests mirror the package: `tests/ROOM/test_x.py` is about `llm_specdec/ROOM/x`, module or folder,
and `test_x_part.py` about a part of it.

    integration/    what only several rooms together can show: chats, pipelines, warm starts
    support/        what tests share; no test module is imported
    test_*.py       here: top-level modules, and the repository (docs, fixtures, imports, tests)

`test_house.py` checks this.
"""
