"""The blocks of a page, and what counts as the output that it shows."""

from __future__ import annotations

import pytest

from guidelib.pages import Block, blocks, prints

PAGE = """
<!-- example: make -->
```sh
one
```

- In a list:

  <!-- output: make -->
  ```text
  two

    three
  ```

```
unlabelled
```
"""


def test_a_block_has_the_name_of_the_comment_above_it() -> None:
    assert blocks(PAGE) == [
        Block("example", "make", "sh", "one\n"),
        Block("output", "make", "text", "two\n\n  three\n"),
        Block("", "", "", "unlabelled\n"),
    ]


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("a\n", "a"),
        ("a … c\n", "a b b c\n"),
        ("a\n…\nd\n", "a\nb\nc\nd\n"),
        ("…\nd\n", "c\nd\n"),
        ('{"a":"…"}\n', '{"a":"1"}\n'),
    ],
)
def test_a_page_may_leave_parts_of_an_output_out(shown: str, printed: str) -> None:
    assert prints(shown, printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [("a\n", "a\nb\n"), ("a … c\n", "a\nc\n"), ("a.c\n", "abc\n"), ("…\nd\n", "d\ne\n")],
)
def test_another_output_is_noticed(shown: str, printed: str) -> None:
    assert not prints(shown, printed)
