# SPDX-License-Identifier: Apache-2.0
"""A message is one line of printable characters, whatever it quotes."""

from hypothesis import given
from hypothesis import strategies as st

from roadbed.core.errors import InputError


@given(st.text(alphabet=st.characters()))
def test_one_printable_line(text):
    assert str(InputError(f"{text}: no such file")).isprintable()


def test_plain_messages_stay_as_they_are():
    assert str(InputError("café.pcd: found 3 x 4")) == "café.pcd: found 3 x 4"
    assert str(InputError("two\nlines\0")) == r"two\nlines\x00"
