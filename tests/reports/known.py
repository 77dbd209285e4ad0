"""The publicly reported faults that have no row of their own: tried by another test, or not at all."""

from __future__ import annotations

from typing import Final

UNIT: Final = "tests/unit/deploy"
LAB: Final = "tests/integration/deploy"

ELSEWHERE: Final = (
    ("a limit on locked memory", "eugr 389, 392; vllm 42075", "preflight",
     f"{UNIT}/test_preflight_machine.py::test_a_limit_of_locked_memory_is_an_error_and_unknown_a_warning"),
    ("the kernel that registers no memory", "aicad-nccl 1; MiaAI DSpark 259", "preflight",
     f"{UNIT}/test_preflight_machine.py::test_the_kernel_that_registers_no_memory_is_an_error_unless_booted_with_the_cure"),
    ("page cache in the way of the start-up check", "vllm 48140; MiaAI GLM 47", "preflight",
     f"{UNIT}/test_preflight_machine.py::test_page_cache_in_the_way_of_vllms_check_is_a_warning_with_the_way_to_drop_it"),
    ("daemon-reload takes the GPU", "nvidia-container-toolkit 48, 251", "preflight",
     f"{UNIT}/test_preflight_machine.py::test_gpus_that_a_daemon_reload_takes_away_are_a_note_and_those_of_cdi_stay"),
    ("twins in one subnet", "eugr 270", "manifest",
     "tests/unit/manifest/test_said.py::test_a_broken_rule_is_told_in_full_and_alone"),
    ("leftovers of other launchers", "MiaAI DSpark 72", "preflight",
     f"{LAB}/test_doctor.py::test_what_other_launchers_have_left_is_found_beside_a_pair_that_serves"),
    ("a rank that never comes", "playbooks 63; gpustack 5779", "start",
     f"{LAB}/test_starts.py::test_a_rank_that_never_comes_is_told_after_its_own_time_and_not_after_the_whole"),
    ("health is fine, every completion fails", "tonyd2wild GLM 10", "start",
     f"{LAB}/test_starts.py::test_a_server_that_is_healthy_and_fails_every_completion_is_not_waited_for_for_long"),
    ("a rank fails every step, the client sees 200", "vLLM 0.32 on CPU, measured", "start",
     f"{LAB}/test_starts.py::test_a_rank_that_logs_failures_while_the_client_sees_200_ends_the_deploy"),
    ("a rank frozen while it starts", "MiaAI DSpark 87", "start",
     f"{LAB}/test_starts.py::test_a_rank_that_is_frozen_while_it_starts_is_told"),
    ("an interrupted launcher leaves containers", "sparkrun 223, 208", "start",
     f"{LAB}/test_faults.py::test_an_interrupted_deploy_leaves_the_old_pair_serving"),
    ("one rank restarts alone", "MiaAI DSpark 38; Qwen3.8 Dual PR 2", "start",
     f"{LAB}/test_deploy.py::test_a_rank_that_was_removed_by_hand_is_replaced_with_its_pair"),
    ("one image, two Ids on two image stores", "sparkrun 152; moby 48401", "verify",
     f"{LAB}/test_mixed_stores.py::test_one_image_is_known_on_both_kinds_of_store"),
    ("an entrypoint that eats the command", "sparkrun 279; vllm blog PR 305", "verify",
     "tests/unit/verify/test_judge_container.py::test_another_or_a_cleared_entrypoint_is_found"),
    ("other arguments on one rank", "public write-up", "verify",
     "tests/unit/verify/test_judge_container.py::test_commands_that_differ_in_anything_else_are_found"),
    ("NCCL fell back to TCP", "public write-ups; vllm 42075", "verify",
     "tests/integration/verify/test_falsified.py::test_every_check_fails_on_its_own_falsification"),
)  # fmt: skip
"""Fault, reports, stage, test."""

NOT_SHOWN: Final = (
    (
        "NCCL of another build hangs under load",
        "vllm 42354, 41725; eugr 252",
        "the lab has no NCCL; one image digest on all nodes means one libnccl",
    ),
    ("3 GB/s, or 13 of 200 Gbit/s", "playbooks 102, 25", "a lab's links have no such speed"),
    ("the fence hang of AArch64", "nccl 2393", "needs NCCL on a GB10"),
    ("FP8 kernels for 12.0 only", "eugr 143, PR 151", "needs a GPU"),
    ("graph capture across nodes fails", "vllm 46253", "needs a GPU"),
    ("a gated-delta hybrid answers wrongly", "validation ledger", "needs the model and a GPU"),
    ("one GPU at 100 %, the other at 0 %", "eugr 24", "needs GPUs"),
    ("hard reset under prefill", "playbooks 97; tonyd2wild 31", "power of real hardware"),
    ("a stuck low-power state", "minefield PR 55", "power of real hardware"),
    ("unified memory runs out", "vllm 56824; eugr 321", "needs a GPU"),
    ("tactics of FlashInfer differ per rank", "sawaichi", "needs FlashInfer and a GPU"),
    ("ranks diverge after 20 minutes of load", "minefield 89", "needs an hour, and NCCL"),
    ("custom all-reduce across nodes hangs", "vllm 53894", "the lab's vllm has none"),
    (
        "Ray's monitor, object store and versions",
        "playbooks 75; sparkrun 141; gpustack 2691",
        "no Ray in the lab's images",
    ),
    ("an mDNS name twice", "playbooks 56", "addresses are in the manifest; no name is looked up"),
)
"""Fault, reports, reason."""
