from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from builder.topology import CACHE_ROOT
from deploy.actions import CreateContainer
from deploy.caches import CacheFacts, CachesReport, cache_key, chosen_cache, is_cache
from deploy.launch import Made
from deploy.plan import make_plan
from tests.unit.deploy.clusters import MODEL, empty, lock, wanted

if TYPE_CHECKING:
    from deploy.wanted import Wanted

KEY = "0123456789ab"
G1, G4 = f"sparklock-pair-cache-{KEY}-g1", f"sparklock-pair-cache-{KEY}-g4"


def test_another_image_or_model_is_another_key() -> None:
    image, other = lock().outputs.manifest_digest, lock(image="b").outputs.manifest_digest
    assert cache_key(image, MODEL) != cache_key(other, MODEL)
    assert cache_key(image, MODEL) != cache_key(image, MODEL[:1])
    assert cache_key(image, MODEL) == cache_key(image, list(MODEL))


def test_a_cache_is_taken_again_only_when_every_node_has_it() -> None:
    assert chosen_cache("pair", KEY, [(), ()], 2) == f"sparklock-pair-cache-{KEY}-g2"
    assert chosen_cache("pair", KEY, [(G1,), ()], 2) == f"sparklock-pair-cache-{KEY}-g2"
    assert chosen_cache("pair", KEY, [(G4,), (G1,)], 1) == f"sparklock-pair-cache-{KEY}-g5"
    assert chosen_cache("pair", KEY, [(G1, G4), (G1,)], 9) == G1
    assert chosen_cache("pair", KEY, [(G1, G4), (G4, G1)], 9) == G4


def test_generations_are_compared_as_numbers_and_other_caches_left_alone() -> None:
    ten = f"sparklock-pair-cache-{KEY}-g10"
    assert chosen_cache("pair", KEY, [(G4, ten)], 11) == ten
    others = ("sparklock-pair-cache-ffffffffffff-g3", f"{G4}x", f"sparklock-pairs-cache-{KEY}-g3")
    assert chosen_cache("pair", KEY, [others], 11) == f"sparklock-pair-cache-{KEY}-g11"
    assert is_cache("pair", KEY, G4)
    assert not is_cache("pair", "", G4)
    assert not is_cache("pair", "ffffffffffff", G4)


def created(goal: Wanted, *caches: tuple[str, ...]) -> list[str]:
    states = empty(goal)
    for name, known in zip(states, caches, strict=True):
        states[name] = replace(states[name], caches=known)
    actions = make_plan(goal, states).actions
    return [action.cache for action in actions if isinstance(action, CreateContainer)]


def test_all_ranks_get_caches_of_one_name() -> None:
    goal = wanted()
    key = goal.specs[0].cache
    name = f"sparklock-pair-cache-{key}"
    assert created(goal, (), ()) == [f"{name}-g1"] * 2
    assert created(goal, (f"{name}-g7",), (f"{name}-g7",)) == [f"{name}-g7"] * 2
    assert created(goal, (f"{name}-g7",), ()) == [f"{name}-g8"] * 2
    assert created(wanted(change={"container": {"caches": "off"}}), (), ()) == ["", ""]


def test_a_container_s_cache_is_no_part_of_its_digest_but_that_it_has_one_is() -> None:
    spec = wanted().specs[0]
    mounts = json.dumps(spec.request(Made(cache=G4)))
    assert f'"Source": "{G4}", "Target": "{CACHE_ROOT}"' in mounts
    off = wanted(change={"container": {"caches": "off"}}).specs[0]
    assert CACHE_ROOT not in json.dumps(off.request())
    assert off.digest != spec.digest
    assert wanted(image="b").specs[0].cache != spec.cache


def test_a_report_tells_sizes_and_what_went() -> None:
    kept, gone = CacheFacts(G4, 1_500_000, in_use=True), CacheFacts(G1, None, in_use=False)
    assert CachesReport("pair", []).text() == "pair: no caches"
    report = CachesReport("pair", [("a", kept)], [("a", gone)])
    assert report.text().splitlines()[1:] == [
        f"  a  removed {G1}  size unknown",
        f"  a  {G4}  1.5 MB, in use",
    ]
    assert report.as_json()["kept"] == [
        {"node": "a", "name": G4, "size_bytes": 1_500_000, "in_use": True}
    ]
