"""Text from the API in pages: escaped, without control characters, of bounded length."""

from datetime import timedelta

import pytest
from console_source import GivenSource, console_app
from fake_clock import START
from flask import render_template_string

from berthmaster.model.taint import Taint
from console import markup

HOSTILE = "<b>\x1b[31m\x00\N{RIGHT-TO-LEFT OVERRIDE}&\"'"


MACRO = "{% import 'macros.html' as ui with context %}{{ ui.empty(text) }}"


@pytest.mark.parametrize(
    "template", ["{{ text }}", "{{ text | name }}", "{{ taint }}", '<a title="{{ text }}">', MACRO]
)
def test_every_expression_of_a_template_is_escaped_and_printable(template):
    app = console_app(GivenSource())
    with app.test_request_context("/help"):
        app.preprocess_request()
        page = render_template_string(template, text=HOSTILE, taint=Taint(HOSTILE, "NoSchedule"))
    assert "&lt;b&gt;\\x1b[31m\\x00\\u202e&amp;&#34;&#39;" in page
    assert page.replace("\n", "").isprintable()


@pytest.mark.parametrize(("number", "text"), [(0, "0"), (999, "999"), (3005, "3,005"), (-1234567, "-1,234,567")])
def test_numbers_of_four_and_more_digits_have_commas(number, text):
    assert markup.number(number) == text


def test_a_name_has_at_most_253_characters():
    assert len(markup.name("x" * 1000)) == 253


@pytest.mark.parametrize(
    ("passed", "text"),
    [
        (timedelta(seconds=0), "0 s ago"),
        (timedelta(seconds=59), "59 s ago"),
        (timedelta(minutes=3, seconds=7), "3 min 7 s ago"),
        (timedelta(hours=3, minutes=20, seconds=5), "3 h 20 min ago"),
        (timedelta(days=400, seconds=1), "400 d ago"),
        (timedelta(minutes=-10), "in 10 min"),
    ],
)
def test_ages_are_in_two_units(passed, text):
    assert markup.age(START, START + passed) == text


def test_an_absent_time_is_never():
    assert markup.age(None, START) == "never"
