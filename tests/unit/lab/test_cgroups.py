"""Where the hierarchies of control groups are mounted."""

from __future__ import annotations

from pathlib import Path

from deploy.lab.cgroups import hierarchies

VERSION_2 = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
VERSION_1 = """\
21 1 8:1 / / rw,relatime - ext4 /dev/vda rw
31 22 0:27 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
33 31 0:29 / /sys/fs/cgroup/memory rw,relatime shared:4 master:2 - cgroup cgroup rw,memory
32 31 0:28 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
34 31 0:30 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""


def test_version_2_has_one_hierarchy() -> None:
    assert hierarchies(VERSION_2.splitlines()) == (Path("/sys/fs/cgroup"),)


def test_version_1_has_one_per_controller_and_optional_fields_do_not_confuse() -> None:
    names = [path.name for path in hierarchies(VERSION_1.splitlines())]
    assert names == ["cpu", "memory", "unified"]
