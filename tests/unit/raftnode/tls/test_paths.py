"""Other ends refuse a certificate from its own end on, or from that of the CAs above it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pytest

from proofkit.certificates import HOUR, Authority
from raftnode.tls.certificates import Certificate, read_certificates
from raftnode.tls.material import TlsError, load_material
from raftnode.tls.paths import accepted_until

from .test_material import issue, rules_of

PATHS = "tls.paths:accepted_until"


def hours_left(chain: Sequence[Certificate], trusted: bytes) -> int:
    left = accepted_until(chain, read_certificates(trusted)) - dt.datetime.now(dt.UTC)
    return round(left / HOUR)


def chain_of(tmp_path, authority: Authority, hours: int = 9) -> tuple[Certificate, ...]:
    files = issue(tmp_path, authority, valid_for=hours * HOUR)
    return read_certificates(files.certificate.read_bytes())


@pytest.mark.without(PATHS, "min(end, ca.not_after) for", "end for")
def test_a_ca_that_ends_first_ends_its_certificates(tmp_path):
    chain = chain_of(tmp_path, short := Authority(valid_for=5 * HOUR))
    assert hours_left(chain, short.pem) == 5
    assert hours_left(chain, short.pem + Authority().pem) == 5


def test_a_ca_that_ends_later_changes_nothing(tmp_path):
    chain = chain_of(tmp_path, authority := Authority())
    assert hours_left(chain, authority.pem) == 9


@pytest.mark.without("tls.paths:_is_below", "return False", "return True")
def test_another_ca_of_the_same_name_does_not_count(tmp_path):
    chain = chain_of(tmp_path, authority := Authority(valid_for=5 * HOUR))
    for trusted in (authority.pem + Authority().pem, Authority().pem + authority.pem):
        assert hours_left(chain, trusted) == 5


@pytest.mark.without(PATHS, "max(ends, default=end)", "min(ends, default=end)")
def test_a_ca_that_was_renewed_with_its_key_ends_later(tmp_path):
    authority = Authority(valid_for=5 * HOUR)
    before = authority.pem
    authority.renew(7 * HOUR)
    assert hours_left(chain_of(tmp_path, authority), before + authority.pem) == 7


@pytest.mark.without(PATHS, "end = min(end, certificate.not_after)", "end = chain[0].not_after")
@pytest.mark.without(PATHS, "max(ends, default=end)", "chain[0].not_after")
@pytest.mark.without(PATHS, "chain[at + 1 : at + 2]", "chain[:0]")
def test_a_certificate_in_between_that_ends_first_ends_those_below_it(tmp_path):
    between = Authority("between", above=(root := Authority()), valid_for=4 * HOUR)
    leaf, between_read = *chain_of(tmp_path, between), *read_certificates(between.pem)
    assert hours_left((leaf, between_read), root.pem) == 4
    # A listener of clients need not trust the CA above its own certificate.
    assert hours_left((leaf, between_read), Authority("clients").pem) == 4
    assert hours_left((leaf, between_read), b"".join((between.pem, root.pem))) == 4


def test_a_certificate_that_is_trusted_itself_needs_no_other(tmp_path):
    between = Authority("between", above=Authority(valid_for=2 * HOUR), valid_for=4 * HOUR)
    assert hours_left(chain_of(tmp_path, between), between.pem) == 4


def test_openssl_agrees_that_a_path_is_over(tmp_path):
    expired = Authority(valid_for=-HOUR)
    files = issue(tmp_path, expired, also_trusted=[Authority("sound")], valid_for=9 * HOUR)
    chain = read_certificates(files.certificate.read_bytes())
    assert hours_left(chain, files.ca.read_bytes()) == -1
    with pytest.raises(TlsError, match="certificate has expired"):
        load_material(rules_of(files))
    before = expired.pem
    expired.renew()
    files.ca.write_bytes(before + expired.pem)
    assert load_material(rules_of(files)).accepted_until == chain[0].not_after
