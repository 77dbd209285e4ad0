from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from deploy import guard
from deploy.guard import Holder, holders_in

HOLDER = Holder("pair", "me@here", 77, "2026-01-02T03:04:05Z", "deploy")


def test_a_title_says_all_and_is_read_back() -> None:
    assert HOLDER.title == "sparklock-guard pair me@here 77 2026-01-02T03:04:05Z deploy /run"
    assert Holder.parse(HOLDER.title) == HOLDER


@given(st.text(), st.text(min_size=1))
def test_any_name_of_user_and_host_makes_a_title_of_one_line(who: str, folder: str) -> None:
    found = Holder.parse(replace(HOLDER, who=who, folder=folder).title)
    assert found is not None
    assert (found.cluster, found.verb, found.folder) == ("pair", "deploy", folder)


def test_holders_are_found_among_what_else_runs() -> None:
    other = replace(HOLDER, folder="/elsewhere")
    listed = (
        f"/proc/12/cmdline:{HOLDER.title}\0-c\0echo; while\0\n"
        f"/proc/13/cmdline:{other.title}\0-c\0\n"
        "/proc/14/cmdline:sparklock-guard of another kind\0\n"
        "/proc/15/cmdline:sparklock-guard "
    )
    (found,) = holders_in(listed.encode())
    assert (found.holder, found.node_pid) == (HOLDER, 12)
    assert holders_in(b"") == ()


def test_the_argument_lists_hold_nothing_but_programs_and_the_title() -> None:
    argv = guard.hold_argv(HOLDER)
    assert argv[-1] == HOLDER.title
    assert argv[-2] == guard._HOLD
    assert guard.TRUSTED_S + guard.BEAT_S < guard.LEASE_S
