"""Templates of strangers: rendered as transformers does, within limits, and parsed for nothing."""

import resource
import threading
import time
from typing import Any

import psutil
import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from llm_specdec.errors import UsageError
from llm_specdec.prompting import rendering, templates

MESSAGES = [
    {"role": "user", "content": "Grüß <dich>\n&"},
    {"role": "assistant", "content": "x", "reasoning_content": "y"},
]
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "f", "parameters": {"a": [1, 1.5, None]}}}
]
TALK = "{% for m in messages %}\n  {{ m.role }}: {{ m.content }}\n{% endfor %}\n"
FOREVER = "{% set r = range(99999) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}"
FOLDED = "{% if false %}{{ 'a' * 2000000000 }}{{ 'a' | center(2000000000) }}{% endif %}"
AUTOESCAPE = "{% autoescape 'a' | center(2000000000) %}{% endautoescape %}"


def rendered(template, cancelled=lambda: False, **values):
    given = {"messages": MESSAGES, "tools": TOOLS, "add_generation_prompt": True, **values}
    (found,) = rendering.render(template, [given], cancelled)
    return found


@pytest.mark.parametrize(
    "template",
    [
        TALK,
        "{{ tools | tojson }}{{ tools | tojson(indent=2, sort_keys=true) }}",
        "{{ messages | tojson(ensure_ascii=True, separators=(',', ':')) }}",
        "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% break %}"
        "{% endfor %}",
        "{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}",
        "{% set ns = namespace(a=1) %}{% for m in messages %}{% set ns.a = ns.a + 1 %}{% endfor %}"
        "{{ ns.a }}",
        "{{ strftime_now('%Y') }}{{ dict(a=1) }}{{ dict.fromkeys('ab', 1) }}",
        "{{ 1 + 2 * 3 // 2 % 5 - 4 / 2 }}{{ 2 ** 8 }}{{ 'a' * 3 + 'b' }}{{ '%s!' % 'a' }}",
        "{{ 'a' | center(9) }}|{{ [1, 'x'] | join(',') }}{{ none }}{{ true }}{{ undefined_name }}",
        "{{ messages[1].thinking }}{{ messages[1].reasoning_content }}",
    ],
)
def test_the_text_is_the_one_that_transformers_makes(template):
    reference: Any = render_jinja_template
    (expected,), _ = reference(
        [MESSAGES], tools=TOOLS, chat_template=template, add_generation_prompt=True
    )
    aliased = [rendering._aliased(message) for message in MESSAGES]
    assert rendered(template, messages=aliased, documents=None) == expected


def test_a_branch_that_is_not_taken_costs_nothing():
    assert rendered(FOLDED + "ok") == "ok"


@pytest.mark.parametrize(
    ("template", "why"),
    [
        (FOREVER, "it takes more than 0.5 s"),
        ("{{ (10 ** 8) ** (10 ** 8) }}", "it takes more than 0.5 s"),
        ("{{ 'a' * 2000000000 }}", "it needs too much memory"),
        (AUTOESCAPE, "it needs too much memory"),
        ("{{ 'a' * 20000000 }}", "it makes 20,000,000 characters of it"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "maximum recursion depth"),
        ("{{ raise_exception('no ' * 1000) }}", "no no"),
        ("{{ raise_exception('n' * 1000) }}", "nnn"),
        ("{{ namespace(_a=1) }}", "a namespace takes no name"),
        ("{{ messages.append(1) }}", ""),
        ("{% endif %}", "Encountered unknown tag"),
    ],
)
def test_what_a_template_may_not_is_one_short_line(template, why, monkeypatch):
    monkeypatch.setattr(rendering, "SECONDS", 0.5)
    found = rendered(template)
    assert isinstance(found, UsageError)
    said = "the model's chat template refuses this conversation: "
    assert str(found).startswith(f"{said}{why}")
    assert len(str(found)) <= len(said) + 120


def test_what_was_rendered_before_a_limit_is_kept(monkeypatch):
    monkeypatch.setattr(rendering, "SECONDS", 0.5)
    slow = "{% if slow %}" + FOREVER + "{% endif %}ok"
    found = rendering.render(slow, [{}, {"slow": True}, {}], lambda: False)
    assert [str(one)[-27:] for one in found] == ["ok", *["n: it takes more than 0.5 s"] * 2]


def test_an_interrupt_ends_a_rendering_and_its_process():
    others = {*psutil.Process().children()}  # those of earlier tests
    stop = threading.Event()
    timer = threading.Timer(0.3, stop.set)
    threads = {*threading.enumerate(), timer}
    timer.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        rendered(FOREVER, cancelled=stop.is_set)
    assert {*threading.enumerate()} <= threads  # none goes on reading from the process
    assert time.monotonic() - started < rendering.SECONDS / 2
    assert {*psutil.Process().children()} <= others  # none is left, running or not


def test_memory_is_looked_at_where_the_system_sets_no_limit(monkeypatch):
    monkeypatch.setattr(rendering, "_memory_of", lambda pid: rendering.MEMORY + 1)
    assert "needs too much memory" in str(rendered(FOREVER))


@pytest.mark.parametrize(
    "template",
    [
        FOLDED,
        AUTOESCAPE,
        "{{ 'a' * 2000000000 }}",
        "{{ [0] * 2000000000 }}",
        "{{ (10 ** 8) ** (10 ** 8) }}",
    ],
)
def test_parsing_computes_nothing(template):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    assert templates.read(template + "{{ enable_thinking }}").arguments == {"enable_thinking"}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes
    assert time.process_time() - started < 2


@pytest.mark.parametrize("template", ["{{ " + "(" * 5000, "{{ 9" + "9" * 5000 + " }}", "{% x %}"])
def test_what_cannot_be_parsed_is_one_line(template):
    with pytest.raises(UsageError, match=r"the model's chat template cannot be read: .+") as raised:
        templates.read(template)
    assert len(str(raised.value)) < 200


def test_a_process_started_ahead_is_used_and_one_that_ended_is_not():
    rendering.start_ahead()
    (waiting,) = rendering._waiting
    rendering.start_ahead()
    assert rendering._waiting == [waiting]
    assert rendering.render("{{ 1 + 1 }}", [{}], lambda: False) == ["2"]
    assert waiting.poll() is not None and not rendering._waiting
    rendering.start_ahead()
    rendering._waiting[0].kill()
    rendering._waiting[0].wait()
    assert rendering.render("{{ 1 + 1 }}", [{}], lambda: False) == ["2"]
