from __future__ import annotations

from dataclasses import replace

import pytest

from builder.graft.command_findings import (
    BadCommand,
    MissingCommand,
    MissingInterpreter,
    NotExecutable,
    WrongFormat,
)
from builder.graft.commands import Launch, check_commands
from builder.oci.model import Platform
from tests.unit.graft.images import MemoryImage

LAUNCH = Launch(
    entrypoint=("/opt/nvidia/nvidia_entrypoint.sh",),
    workdir="/workspace/vllm",
    paths=("/workspace/vllm:/usr/local/bin:/usr/bin:/bin",),
    node_script="./run-cluster-node.sh",
    mounts=(),
    platform=Platform("linux", "arm64"),
)
SCRIPT = "workspace/vllm/run-cluster-node.sh"
CONSOLE = "usr/local/bin/vllm"


def elf(machine: int) -> bytes:
    return b"\x7fELF\x02\x01\x01" + bytes(11) + machine.to_bytes(2, "little") + bytes(44)


def spark() -> MemoryImage:
    """A base as vendors make it: usr-merged, with its own interpreters."""
    image = MemoryImage().link("bin", "usr/bin").link("usr/bin/sh", "bash")
    image.file("usr/bin/bash", elf(183), 0o755).file("usr/bin/env", elf(183), 0o755)
    image.file("usr/bin/python3.12", elf(183), 0o755).link("usr/bin/python3", "python3.12")
    image.file("opt/nvidia/nvidia_entrypoint.sh", '#!/bin/bash\nexec "$@"\n', 0o755)
    image.file(SCRIPT, "#!/bin/bash\n", 0o755)
    return image.file(CONSOLE, "#!/usr/bin/python3\n", 0o755)


def check(image: MemoryImage, launch: Launch = LAUNCH) -> tuple[BadCommand, ...]:
    return check_commands(image.tree, launch, place="cluster.toml:40: serve.node_script")


def only(image: MemoryImage, launch: Launch = LAUNCH) -> BadCommand:
    (finding,) = check(image, launch)
    return finding


def with_script(text: str) -> MemoryImage:
    return spark().file(SCRIPT, text, 0o755)


def test_a_base_that_is_right_gives_nothing() -> None:
    assert check(spark()) == ()


def test_an_image_without_entrypoint_and_node_script_needs_only_vllm() -> None:
    image = spark()
    del image.entries[SCRIPT], image.entries["opt/nvidia/nvidia_entrypoint.sh"]

    assert check(image, replace(LAUNCH, entrypoint=(), node_script=None)) == ()


def test_a_missing_node_script_tells_the_story_and_the_way_out() -> None:
    image = spark()
    del image.entries[SCRIPT]

    assert only(image).message.text() == (
        "cluster.toml:40: serve.node_script: ./run-cluster-node.sh is not in the assembled image, "
        "whose working directory is /workspace/vllm\n"
        "  expected: an executable file at /workspace/vllm/run-cluster-node.sh\n"
        "  found:    nothing; a container would fail with "
        "`stat ./run-cluster-node.sh: no such file or directory`\n"
        "  remedy:   use a base that has it, or add it with [[image.file]] "
        'target = "/workspace/vllm/run-cluster-node.sh", mode = "0755"'
    )


def test_a_node_script_in_another_folder_is_pointed_out() -> None:
    found = only(spark(), replace(LAUNCH, workdir="/app"))

    assert isinstance(found, MissingCommand)
    assert (found.path, found.elsewhere) == ("/app/run-cluster-node.sh", (f"/{SCRIPT}",))


def test_a_node_script_may_be_named_as_one_on_path() -> None:
    assert check(spark(), replace(LAUNCH, node_script="run-cluster-node.sh")) == ()


def test_everything_that_is_missing_is_reported() -> None:
    places = [finding.place for finding in check(MemoryImage())]

    assert places == [
        "image config: Entrypoint",
        "cluster.toml:40: serve.node_script",
        "image: the package's console script",
    ]


def test_a_missing_console_script_names_the_folders_on_path() -> None:
    image = spark()
    del image.entries[CONSOLE]
    found = only(image)

    assert isinstance(found, MissingCommand)
    assert found.search == ("/workspace/vllm", "/usr/local/bin", "/usr/bin", "/bin")
    assert '`exec: "vllm": executable file not found in $PATH`' in str(found.message.text())


def test_an_unset_path_is_the_engines_default() -> None:
    assert check(spark(), replace(LAUNCH, paths=("",))) == ()


def test_links_are_followed_and_a_loop_leads_nowhere() -> None:
    image = spark().link(SCRIPT, "/opt/run.sh").file("opt/run.sh", "#!/bin/sh\n", 0o755)
    assert check(image) == ()

    image.link("opt/run.sh", "run.sh")
    assert isinstance(only(image), MissingCommand)


def test_one_execute_bit_is_enough_for_root_and_none_is_not() -> None:
    assert check(spark().file(SCRIPT, "#!/bin/sh\n", 0o601)) == ()

    found = only(spark().file(SCRIPT, "#!/bin/sh\n", 0o644))
    assert isinstance(found, NotExecutable)
    assert found.found == "a file of mode 0644"


def test_a_directory_is_no_command() -> None:
    image = spark()
    del image.entries[SCRIPT]
    found = only(image.directory(SCRIPT))

    assert isinstance(found, NotExecutable)
    assert found.found == "a directory"


def test_each_path_of_a_container_is_judged_and_told_once() -> None:
    launch = replace(LAUNCH, paths=(*LAUNCH.paths, "/nowhere", "/nowhere"))

    (finding,) = check(spark(), launch)
    assert isinstance(finding, MissingCommand)
    assert (finding.name, finding.search) == ("vllm", ("/nowhere",))


def test_on_path_a_file_without_execute_bit_is_passed_over() -> None:
    assert check(spark().file("workspace/vllm/vllm", "", 0o644)) == ()


@pytest.mark.parametrize(
    "line",
    [
        "#!/usr/bin/python3 -u",
        "#! /bin/sh",
        "#!/usr/bin/env python3",
        "#!/usr/bin/env -S python3 -u",
        "#!/usr/bin/env -S PYTHONPATH=/x python3",
        "#!/usr/bin/env\tbash",
        "#!../../bin/bash",
    ],
)
def test_first_lines_of_all_kinds_are_understood(line: str) -> None:
    assert check(with_script(f"{line}\n")) == ()


@pytest.mark.parametrize(
    ("line", "interpreter"),
    [
        ("#!/bin/zsh", "/bin/zsh"),
        ("#!/usr/bin/env zsh", "zsh"),
        ("#!/usr/bin/env python3 -u", "python3 -u"),
        ("#!/usr/bin/env -S zsh -x", "zsh"),
        ("#!bash", "./bash"),
        ("#!/bin/bash\r", "/bin/bash\r"),
    ],
)
def test_a_missing_interpreter_is_named(line: str, interpreter: str) -> None:
    found = only(with_script(f"{line}\n"))

    assert isinstance(found, MissingInterpreter)
    assert (found.path, found.interpreter) == (f"/{SCRIPT}", interpreter)


def test_a_carriage_return_behind_the_interpreter_is_explained() -> None:
    assert "save it with LF" in only(with_script("#!/bin/bash\r\n")).message.found


def test_an_interpreter_may_be_a_script_and_may_not_be_its_own() -> None:
    image = with_script("#!/opt/run\n").file("opt/run", "#!/bin/sh\n", 0o755)
    assert check(image) == ()

    found = only(image.file("opt/run", "#!/opt/run\n", 0o755))
    assert isinstance(found, MissingInterpreter)
    assert found.detail == "too many scripts in a row"


def test_programs_of_another_platform_are_refused_also_as_interpreters() -> None:
    amd = replace(LAUNCH, platform=Platform("linux", "amd64"))

    findings = check(spark(), amd)

    assert [type(finding) for finding in findings] == [WrongFormat] * 3
    assert findings[1].message.what == (
        f"/bin/bash, which runs /{SCRIPT}, is not a program for the platform (`exec format error`)"
    )
    assert findings[1].message.found == "an ELF program for arm64"


def test_a_platform_without_a_known_machine_number_is_not_judged_by_it() -> None:
    assert check(spark(), replace(LAUNCH, platform=Platform("linux", "riscv64"))) == ()


@pytest.mark.parametrize("data", ["", "echo hello\n", "\ufeff#!/bin/sh\n"])
def test_a_file_that_is_neither_script_nor_program_is_refused(data: str) -> None:
    assert isinstance(only(with_script(data)), WrongFormat)


def lab() -> tuple[MemoryImage, Launch]:
    """The lab's base: text only; interpreters come from the machine, through mounts."""
    image = MemoryImage().link("bin", "usr/bin").link("lib64", "usr/lib64")
    image.directory("usr/bin").directory("usr/lib").directory("usr/lib64")
    image.file("opt/nvidia/nvidia_entrypoint.sh", "#!/bin/bash\n", 0o755)
    image.file(SCRIPT, "#!/usr/bin/env bash\n", 0o755)
    image.file(CONSOLE, "#!/usr/bin/python3\n", 0o755)
    return image, replace(LAUNCH, mounts=("/usr/bin", "/usr/lib", "/lib64"))


def test_an_interpreter_below_a_mount_is_provided_by_the_node() -> None:
    assert check(*lab()) == ()


def test_what_a_mount_hides_does_not_count() -> None:
    image, launch = lab()
    image.file("usr/bin/python3", b"not a program", 0o755)

    assert check(image, launch) == ()


def test_vllm_and_the_node_script_are_the_images_own_whatever_is_mounted_on_path() -> None:
    image, launch = lab()
    del image.entries[CONSOLE]
    found = only(image, launch)

    assert isinstance(found, MissingCommand)
    assert found.search == ("/workspace/vllm", "/usr/local/bin")


def test_an_entrypoint_may_be_a_program_of_the_node() -> None:
    image, launch = lab()

    assert check(image, replace(launch, entrypoint=("bash", "-c"))) == ()
    assert check(image, replace(launch, entrypoint=("/usr/bin/tini", "--"))) == ()
