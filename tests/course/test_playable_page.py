"""The committed page `notebooks/transformer.html` is what its generator writes."""

import json

from course import playable_page


def test_the_committed_page_is_up_to_date():
    committed = playable_page.PAGE.read_text("utf-8")
    data, packed = playable_page.read(committed)
    assert committed == playable_page.render(data, packed), "run `make page`"
    expected, arrays = playable_page.compute()
    assert data == json.loads(json.dumps(expected))
    # Not the text: another version of zlib may compress in another way.
    assert playable_page.unpack(packed) == playable_page.unpack(playable_page.pack(arrays))
    assert len(committed) < 12e6
