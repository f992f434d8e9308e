"""The identities in certificates."""

from __future__ import annotations

import pytest

from raftnode.tls.names import NodeName, certificate_of, node_names


@pytest.mark.parametrize(
    ("uri", "names"),
    [
        ("spiffe://kraftquorum/cluster/C-1_x/node/7", (NodeName("C-1_x", 7),)),
        ("spiffe://kraftquorum/cluster/a%2Fb/node/0", (NodeName("a/b", 0),)),
        ("spiffe://kraftquorum/cluster/C/node/2147483648", ()),
        ("spiffe://kraftquorum/cluster/C/node/-1", ()),
        ("spiffe://kraftquorum/cluster/C/node/1/x", ()),
        ("spiffe://kraftquorum/cluster/C/client/1", ()),
        ("spiffe://other/cluster/C/node/1", ()),
        ("https://kraftquorum/cluster/C/node/1", ()),
    ],
)
def test_a_uri_names_a_node_or_nothing(uri: str, names: tuple[NodeName, ...]) -> None:
    assert node_names([uri]) == names


def test_a_name_is_written_as_it_is_read() -> None:
    name = NodeName("a/b c", 3)
    assert node_names([str(name)]) == (name,)


def test_a_certificate_of_the_standard_library_is_read() -> None:
    certificate = certificate_of(
        {
            "subject": ((("organizationName", "o"),), (("commonName", "app"),)),
            "subjectAltName": (("URI", "spiffe://kraftquorum/cluster/C/node/1"), ("DNS", "a.b")),
            "notAfter": "Nov 27 06:28:46 2026 GMT",
        }
    )
    assert certificate.common_name == "app"
    assert certificate.dns_names == ("a.b",)
    assert certificate.nodes == (NodeName("C", 1),)
