"""Phases add up to wall, and unsynchronised rounds are divided as the synchronised ones."""

from llm_specdec.engine.phases import SYNC_EVERY, SYNC_FIRST, Meter


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def run_round(meter, clock, length, draft, verify, commit=0.0):
    synced = meter.begin_round(length)
    if not synced:  # without a synchronisation all the waiting shows up in verify
        draft, verify = 0.0, draft + verify
    for name, seconds in (("draft", draft), ("verify", verify), ("commit", commit)):
        clock.now += seconds
        meter.phase(name)
    meter.end_round(length, synced)
    return synced


def test_unsynchronised_rounds_take_the_proportions_of_synchronised_ones():
    clock = Clock()
    meter = Meter(clock)
    clock.now += 2.0
    meter.add("prefill")
    meter.first_token()
    synced = [run_round(meter, clock, 3, draft=0.1, verify=0.3, commit=0.1) for _ in range(10)]
    clock.now += 0.5  # nobody's
    meter.finish()
    phases = meter.phases()
    assert synced == [True] * SYNC_FIRST + [False] * (10 - SYNC_FIRST)
    assert meter.synced_rounds == SYNC_FIRST
    assert round(phases["draft"], 9) == 1.0
    assert round(phases["verify"], 9) == 3.0
    assert round(phases["commit"], 9) == 1.0
    assert round(phases["prefill"], 9) == 2.0
    assert round(phases["other"], 9) == 0.5
    assert round(sum(phases.values()), 9) == round(meter.wall, 9) == 7.5
    assert meter.ttft == 2.0


def test_each_draft_length_has_a_split_of_its_own():
    clock = Clock()
    meter = Meter(clock)
    for _ in range(4):
        run_round(meter, clock, 1, draft=0.1, verify=0.1)
        run_round(meter, clock, 8, draft=0.4, verify=0.1)
    meter.finish()
    phases = meter.phases()
    assert round(phases["draft"], 9) == 2.0
    assert round(phases["verify"], 9) == 0.8


def test_time_between_rounds_belongs_to_other():
    clock = Clock()
    meter = Meter(clock)
    for _ in range(3):
        run_round(meter, clock, 2, draft=0.1, verify=0.1)
        clock.now += 1.0  # the consumer prints
    meter.finish()
    assert round(meter.phases()["other"], 9) == 3.0


def test_one_round_in_n_is_synchronised_later_on():
    clock = Clock()
    meter = Meter(clock)
    synced = [run_round(meter, clock, 2, 0.1, 0.1) for _ in range(3 * SYNC_EVERY)]
    assert sum(synced[SYNC_FIRST:]) == 2


def test_a_run_without_a_token_has_no_ttft():
    meter = Meter(Clock())
    meter.finish()
    assert meter.ttft is None
    assert sum(meter.phases().values()) == 0


def test_loading_is_no_part_of_the_run():
    clock = Clock()
    meter = Meter(clock)
    clock.now += 1.0  # the prompt is rendered
    for seconds in (4.0, 2.0):
        with meter.loading():
            clock.now += seconds
    clock.now += 3.0
    meter.add("prefill")
    meter.finish()
    assert (meter.load, meter.wall, meter.phases()["prefill"]) == (6.0, 4.0, 4.0)
