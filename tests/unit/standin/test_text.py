from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.standin import LAB, MODEL

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    Import = Callable[[str], ModuleType]

CHAT = "vllm.entrypoints.chat_utils"
MESSAGES = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]


def test_text_becomes_its_bytes_after_the_first_token(standin: Import) -> None:
    tokenizer = standin("vllm.transformers_utils.tokenizer").ByteTokenizer
    tokens = tokenizer.from_pretrained(str(MODEL)).encode("hé<|end|>")
    assert tokens == [256, ord("h"), 0xC3, 0xA9, 257]


def test_a_lone_surrogate_in_a_prompt_does_no_harm(standin: Import) -> None:
    tokenizer = standin("vllm.transformers_utils.tokenizer").ByteTokenizer
    assert tokenizer.from_pretrained(str(MODEL)).encode("\ud800") == [256, ord("?")]


def test_half_a_character_waits_for_its_other_half(standin: Import) -> None:
    detokenizer = standin("vllm.v1.engine.detokenizer").IncrementalDetokenizer(())
    pieces = []
    for number, token in enumerate(b"h\xc3\xa9\xc3"):
        last = number == 3
        detokenizer.push(token, last=last)
        pieces.append(detokenizer.take_new(last))
    assert pieces == ["h", "", "é", "\ufffd"]


def test_what_may_become_a_stop_string_is_held_back(standin: Import) -> None:
    detokenizer = standin("vllm.v1.engine.detokenizer").IncrementalDetokenizer(["END"])
    pieces = []
    for token in b"xENy END":
        stopped = detokenizer.push(token, last=False)
        pieces.append(detokenizer.take_new(stopped))
    assert pieces == ["", "", "x", "E", "N", "y", " ", ""]


def test_the_labs_chat_template_makes_one_prompt_of_all_messages(standin: Import) -> None:
    template = standin(CHAT).ChatTemplate((LAB / "chat_template.jinja").read_text())
    assert template.render(MESSAGES) == (
        "<|begin|><|system|>be brief<|end|><|user|>hi<|end|><|assistant|>"
    )
    assert template.render(MESSAGES, add_generation_prompt=False).endswith("hi<|end|>")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{% if messages %}yes{% else %}no{% endif %}", "yes"),
        ("{% if nobody %}yes{% else %}no{% endif %}", "no"),
        ("{# nothing #}a", "a"),
        ("a {{- 'b' -}} c", "abc"),
        ("{% for m in messages %}\n{{ m.role }},{% endfor %}", "system,user,"),
        ('{{ "two words" }}{{ nobody.at["all"] }}', "two words"),
        ("{% for m in messages -%}\n  x\n{%- endfor %}", "xx"),
    ],
)
def test_our_part_of_jinja(standin: Import, source: str, text: str) -> None:
    assert standin(CHAT).ChatTemplate(source).render(MESSAGES) == text


@pytest.mark.parametrize(
    "source",
    [
        "{% for m in messages %}",
        "{% endif %}",
        "{% if a %}{% endfor %}",
        "{% set x = 1 %}",
        "{{ messages | length }}",
        "{{ a + b }}",
        "{% else %}",
    ],
)
def test_other_jinja_is_refused_at_once(standin: Import, source: str) -> None:
    with pytest.raises(standin(CHAT).TemplateError):
        standin(CHAT).ChatTemplate(source)
