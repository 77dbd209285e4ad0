"""Stacking, against the rules written down in the plainest way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from builder.digest import Digest
from builder.oci.layers import LayerListing
from builder.oci.model import OCI_LAYER_TAR, Descriptor, Layer
from builder.oci.tree import Entry, Kind
from builder.oci.whiteout import stack

PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join)
DIRECTORIES = st.one_of(st.just(""), PATHS)
KINDS = st.sampled_from([Kind.FILE, Kind.DIRECTORY, Kind.DIRECTORY, Kind.SYMLINK])


def digest(number: int) -> Digest:
    return Digest(f"sha256:{number:064x}")


def entry(path: str, kind: Kind, layer: Digest, mode: int) -> Entry:
    return Entry(path, kind, mode=mode, uid=0, gid=0, mtime=0, size_bytes=0, layer=layer)


@st.composite
def layers(draw: st.DrawFn) -> list[LayerListing]:
    found = []
    for number in range(draw(st.integers(0, 4))):
        name = digest(number)
        stated = draw(st.lists(st.tuples(PATHS, KINDS, st.sampled_from([0o700, 0o711]))))
        found.append(
            LayerListing(
                Layer(Descriptor(OCI_LAYER_TAR, name, 0), name),
                tuple(entry(path, kind, name, mode) for path, kind, mode in stated),
                whiteouts=tuple(draw(st.lists(PATHS, max_size=3))),
                opaques=tuple(draw(st.lists(DIRECTORIES, max_size=2))),
            )
        )
    return found


def below(path: str, directory: str) -> bool:
    return path.startswith(directory + "/") if directory else True


def by_the_rules(listings: list[LayerListing]) -> dict[str, Entry]:
    tree: dict[str, Entry] = {}
    for listing in listings:
        for hidden in listing.whiteouts:
            tree = {p: e for p, e in tree.items() if p != hidden and not below(p, hidden)}
        for opaque in listing.opaques:
            tree = {p: e for p, e in tree.items() if not below(p, opaque)}
        for item in listing.entries:
            parts = item.path.split("/")
            for count in range(1, len(parts)):
                parent = "/".join(parts[:count])
                if parent not in tree or tree[parent].kind is not Kind.DIRECTORY:
                    tree[parent] = entry(parent, Kind.DIRECTORY, item.layer, 0o755)
            if item.kind is not Kind.DIRECTORY:
                tree = {p: e for p, e in tree.items() if not below(p, item.path)}
            tree[item.path] = item
    return tree


@given(layers())
def test_stacking_follows_the_rules(listings: list[LayerListing]) -> None:
    assert dict(stack(listings).entries) == by_the_rules(listings)


@given(layers())
def test_every_path_has_its_directories(listings: list[LayerListing]) -> None:
    tree = stack(listings)

    for path in tree.entries:
        parent = path.rpartition("/")[0]
        if parent:
            assert tree.entries[parent].kind is Kind.DIRECTORY


@given(layers())
def test_an_opaque_root_leaves_its_own_layer_only(listings: list[LayerListing]) -> None:
    for listing in listings:
        top = LayerListing(listing.layer, listing.entries, opaques=("",))
        alone = LayerListing(listing.layer, listing.entries)
        assert stack([*listings, top]) == stack([alone])


@given(layers())
def test_whiteouts_order_and_repetition_change_nothing(listings: list[LayerListing]) -> None:
    doubled = [
        LayerListing(
            item.layer,
            item.entries,
            whiteouts=(*item.whiteouts[::-1], *item.whiteouts),
            opaques=(*item.opaques[::-1], *item.opaques),
        )
        for item in listings
    ]

    assert stack(doubled) == stack(listings)


@given(layers())
def test_stacking_twice_what_hides_nothing_changes_nothing(listings: list[LayerListing]) -> None:
    tree = stack(listings)
    whole = LayerListing(
        Layer(Descriptor(OCI_LAYER_TAR, digest(9), 0), digest(9)), tuple(tree.entries.values())
    )

    assert stack([whole]) == tree
    assert stack([*listings, whole]) == tree
