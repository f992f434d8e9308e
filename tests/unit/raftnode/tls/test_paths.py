"""Other ends refuse a certificate from its own end on, or from that of the CAs above it."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Sequence

import pytest

from proofkit.certificates import HOUR, Authority
from raftnode.tls.certificates import Certificate, read_certificates
from raftnode.tls.material import TlsError, load_material
from raftnode.tls.paths import accepted_until

from .test_material import issue, rules_of

PATHS = "tls.paths:accepted_until"
REACHED = "tls.paths:_reached"


def hours_left(chain: Sequence[Certificate], trusted: bytes) -> int:
    left = accepted_until(chain, read_certificates(trusted)) - dt.datetime.now(dt.UTC)
    return round(left / HOUR)


def chain_of(tmp_path, authority: Authority, hours: int = 9) -> tuple[Certificate, ...]:
    files = issue(tmp_path, authority, valid_for=hours * HOUR)
    return read_certificates(files.certificate.read_bytes())


@pytest.mark.without(PATHS, "min(end, ca.not_after)", "end")
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


@pytest.mark.without(PATHS, "max(ends or", "min(ends or")
def test_a_ca_that_was_renewed_with_its_key_ends_later(tmp_path):
    authority = Authority(valid_for=5 * HOUR)
    before = authority.pem
    authority.renew(7 * HOUR)
    assert hours_left(chain_of(tmp_path, authority), before + authority.pem) == 7


@pytest.mark.without(REACHED, "min(reached[certificate], above.not_after)", "reached[certificate]")
@pytest.mark.without(REACHED, "for above in chain", "for above in chain[:0]")
def test_a_certificate_in_between_that_ends_first_ends_those_below_it(tmp_path):
    between = Authority("between", above=(root := Authority()), valid_for=4 * HOUR)
    leaf, between_read = *chain_of(tmp_path, between), *read_certificates(between.pem)
    assert hours_left((leaf, between_read), root.pem) == 4
    # A listener of clients need not trust the CA above its own certificate.
    assert hours_left((leaf, between_read), Authority("clients").pem) == 4
    assert hours_left((leaf, between_read), b"".join((between.pem, root.pem))) == 4


@pytest.mark.parametrize("order", list(itertools.permutations(range(3)))[1:])
@pytest.mark.without(REACHED, "min(reached[certificate], above.not_after)", "above.not_after")
@pytest.mark.without(REACHED, "in chain:", "in chain[chain.index(certificate) :][:2]:")
def test_the_certificates_in_between_may_stand_in_any_order(tmp_path, order: tuple[int, ...]):
    lower = Authority("lower", above=(upper := Authority("upper", above=(root := Authority()))))
    upper.renew(4 * HOUR)
    above = [authority.pem for authority in (lower, upper, root)]
    files = issue(tmp_path, lower, valid_for=9 * HOUR)
    files.ca.write_bytes(root.pem)
    pem = files.certificate.read_bytes() + b"".join(above[at] for at in order)
    files.certificate.write_bytes(pem)
    chain = read_certificates(pem)
    assert hours_left(chain, root.pem) == 4
    assert hours_left(chain, Authority("clients").pem) == 4
    # OpenSSL takes them in this order, too.
    assert (
        load_material(rules_of(files)).accepted_until == read_certificates(upper.pem)[0].not_after
    )


@pytest.mark.without("tls.paths:_is_top", "above.authority != certificate.authority and ", "")
@pytest.mark.without("tls.paths:_is_top", "not any(", "bool(")
def test_of_a_ca_and_its_renewal_in_the_chain_the_later_counts(tmp_path):
    authority = Authority(valid_for=5 * HOUR)
    before = authority.pem
    authority.renew(7 * HOUR)
    [leaf] = chain_of(tmp_path, authority)
    for pems in (before + authority.pem, authority.pem + before):
        assert hours_left((leaf, *read_certificates(pems)), Authority("clients").pem) == 7


def test_cas_in_the_chain_that_signed_each_other_are_no_endless_path(tmp_path):
    upper = Authority("upper")
    lower = Authority("lower", above=upper, valid_for=5 * HOUR)
    upper._signer = lower
    upper.renew(7 * HOUR)
    [leaf] = chain_of(tmp_path, lower, hours=4)
    chain = (leaf, *read_certificates(lower.pem + upper.pem))
    assert hours_left(chain, Authority("clients").pem) == 4


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
