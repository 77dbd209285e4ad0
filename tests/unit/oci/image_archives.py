"""Members of archives of images, as `docker save` and skopeo write them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from builder.digest import digest_bytes, hex_of
from builder.oci.model import OCI_INDEX
from tests.unit.oci.archives import file

if TYPE_CHECKING:
    import tarfile
    from collections.abc import Sequence

    from tests.unit.oci.archives import Published

    Members = list[tuple[tarfile.TarInfo, bytes]]


def layout_members(published: Published) -> Members:
    """An OCI layout: all blobs, then what leads to them."""
    index = {
        "schemaVersion": 2,
        "mediaType": OCI_INDEX,
        "manifests": [top.as_json() for top in published.source.tops],
    }
    return [
        *(
            file(f"blobs/sha256/{hex_of(digest)}", data)
            for digest, data in sorted(published.source.blobs.items())
        ),
        file("index.json", json.dumps(index).encode()),
        file("oci-layout", b'{"imageLayoutVersion":"1.0.0"}'),
    ]


def saved_members(published: Published, *, layers: Sequence[bytes] | None = None) -> Members:
    """A docker-archive of the only image; `layers` in the place of its own. The list comes last."""
    (top,) = published.source.tops
    manifest = json.loads(published.source.blobs[top.digest])
    config = published.source.blobs[manifest["config"]["digest"]]
    if layers is None:
        layers = [published.source.blobs[layer["digest"]] for layer in manifest["layers"]]
    name = f"{hex_of(digest_bytes(config))}.json"
    names = [f"{hex_of(digest_bytes(data))}.tar" for data in layers]
    listed = [{"Config": name, "RepoTags": ["image:v1"], "Layers": names}]
    return [
        *(file(path, data) for path, data in dict(zip(names, layers, strict=True)).items()),
        file(name, config),
        file("manifest.json", json.dumps(listed).encode()),
    ]
