"""The text of a layer's listing gives the listing again, however it is cut into pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from builder.digest import digest_bytes
from builder.oci.layers import HardLink, LayerListing
from builder.oci.listing_text import listing_text, parse_listing
from builder.oci.model import OCI_LAYER_TAR, Descriptor, Layer
from builder.oci.tree import HEAD_BYTES, Entry, Kind

LAYER = Layer(Descriptor(OCI_LAYER_TAR, digest_bytes(b"stored"), 6), digest_bytes(b"plain"))
PATHS = st.binary(min_size=1, max_size=20).map(lambda raw: raw.decode(errors="surrogateescape"))
NUMBERS = st.integers(-(2**63), 2**63)
ENTRIES = st.builds(
    Entry,
    path=PATHS,
    kind=st.sampled_from(Kind),
    mode=st.integers(0, 0o7777),
    uid=NUMBERS,
    gid=NUMBERS,
    mtime=NUMBERS,
    size_bytes=NUMBERS,
    layer=st.just(LAYER.descriptor.digest),
    link=PATHS,
    content=st.none() | st.binary().map(digest_bytes),
    head=st.binary(max_size=HEAD_BYTES),
)
LISTINGS = st.builds(
    LayerListing,
    layer=st.just(LAYER),
    entries=st.lists(ENTRIES, max_size=5).map(tuple),
    links=st.lists(st.builds(HardLink, PATHS, PATHS), max_size=3).map(tuple),
    whiteouts=st.lists(PATHS, max_size=3).map(tuple),
    opaques=st.lists(PATHS, max_size=3).map(tuple),
    unkept=st.frozensets(PATHS, max_size=3),
    taken=st.integers(0, 2**40),
)


@given(LISTINGS, st.integers(1, 50))
def test_the_text_of_a_listing_gives_it_again(listing: LayerListing, piece_bytes: int) -> None:
    text = b"".join(listing_text(listing))
    pieces = (text[start : start + piece_bytes] for start in range(0, len(text), piece_bytes))
    assert parse_listing(pieces, LAYER) == listing
