"""Phases add up to wall, and unsynchronised rounds are divided as the synchronised ones."""

from llm_specdec.engine.phases import SYNC_EVERY, SYNC_FIRST, PhaseTimer


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def run_round(timer, clock, length, draft, verify, commit=0.0):
    synced = timer.begin_round(length)
    if not synced:  # without a synchronisation all the waiting shows up in verify
        draft, verify = 0.0, draft + verify
    for name, seconds in (("draft", draft), ("verify", verify), ("commit", commit)):
        clock.now += seconds
        timer.phase(name)
    timer.end_round(length, synced, width=length + 1)
    return synced


def test_unsynchronised_rounds_take_the_proportions_of_synchronised_ones():
    clock = Clock()
    timer = PhaseTimer(clock)
    clock.now += 2.0
    timer.add("prefill")
    timer.first_token()
    synced = [run_round(timer, clock, 3, draft=0.1, verify=0.3, commit=0.1) for _ in range(10)]
    clock.now += 0.5  # nobody's
    timer.finish()
    phases = timer.phases()
    assert synced == [True] * SYNC_FIRST + [False] * (10 - SYNC_FIRST)
    assert timer.synced_rounds == SYNC_FIRST
    assert round(phases["draft"], 9) == 1.0
    assert round(phases["verify"], 9) == 3.0
    assert round(phases["commit"], 9) == 1.0
    assert round(phases["prefill"], 9) == 2.0
    assert round(phases["other"], 9) == 0.5
    assert round(sum(phases.values()), 9) == round(timer.wall, 9) == 7.5
    assert timer.ttft == 2.0


def test_each_draft_length_has_a_split_of_its_own():
    clock = Clock()
    timer = PhaseTimer(clock)
    for _ in range(4):
        run_round(timer, clock, 1, draft=0.1, verify=0.1)
        run_round(timer, clock, 8, draft=0.4, verify=0.1)
    timer.finish()
    phases = timer.phases()
    assert round(phases["draft"], 9) == 2.0
    assert round(phases["verify"], 9) == 0.8


def test_time_between_rounds_belongs_to_other():
    clock = Clock()
    timer = PhaseTimer(clock)
    for _ in range(3):
        run_round(timer, clock, 2, draft=0.1, verify=0.1)
        clock.now += 1.0  # the consumer prints
    timer.finish()
    assert round(timer.phases()["other"], 9) == 3.0


def test_one_round_in_n_is_synchronised_later_on():
    clock = Clock()
    timer = PhaseTimer(clock)
    synced = [run_round(timer, clock, 2, 0.1, 0.1) for _ in range(3 * SYNC_EVERY)]
    assert sum(synced[SYNC_FIRST:]) == 2


def test_a_pass_takes_the_middle_time_of_the_synchronised_rounds_of_its_width():
    clock = Clock()
    timer = PhaseTimer(clock)
    for n in range(2 * SYNC_EVERY + 1):
        seconds = {0: 9.0, 1: 0.3, SYNC_EVERY: 0.1}.get(n, 0.2)  # 9 s: a slow spell
        run_round(timer, clock, 2, draft=5.0, verify=seconds, commit=7.0)
    run_round(timer, clock, 4, draft=0.1, verify=0.1)
    assert {width: round(s, 9) for width, s in timer.passes.items()} == {3: 0.2}


def test_a_run_without_a_token_has_no_ttft():
    timer = PhaseTimer(Clock())
    timer.finish()
    assert timer.ttft is None
    assert sum(timer.phases().values()) == 0


def test_loading_is_no_part_of_the_run():
    clock = Clock()
    timer = PhaseTimer(clock)
    clock.now += 1.0  # the prompt is rendered
    for seconds in (4.0, 2.0):
        with timer.loading():
            clock.now += seconds
    clock.now += 3.0
    timer.add("prefill")
    timer.finish()
    assert (timer.load, timer.wall, timer.phases()["prefill"]) == (6.0, 4.0, 4.0)
