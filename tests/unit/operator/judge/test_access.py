"""Access control as a whole: what is written first, what pods get, and what is reported."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.clients.node_access import AccessFiles as CredentialFiles
from kraftquorum_operator.clients.node_access import NodeAccess
from kraftquorum_operator.judge.access import access_alarms
from kraftquorum_operator.model.access_facts import (
    AccessFacts,
    AccessFiles,
    ClusterKeys,
    TokenHash,
    Unusable,
)
from kraftquorum_operator.model.certificates import (
    OPERATOR,
    AuthoritySecret,
    Certificates,
    KeyStore,
    Leaf,
)
from kraftquorum_operator.model.objects import Body, ObjectRef, Owner
from kraftquorum_operator.model.observation import Observation, Pod
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.model.status import Condition
from kraftquorum_operator.observe.read import has_name, secure_nodes
from kraftquorum_operator.plan.actions import Done
from kraftquorum_operator.plan.compare import Desired, compare
from kraftquorum_operator.report.conditions import conditions
from kraftquorum_operator.report.stamp import Stamp
from kraftquorum_operator.resources.drift import has_drifted
from proofkit.operatorworld.observations import UID, healthy

OWNER = Owner("test", "demo", UID)
FILE = ObjectRef("Secret", "demo-access")
TOKEN = ObjectRef("Secret", "demo-operator-token")
SET = ObjectRef("StatefulSet", "demo")
SHOP: Body = {"name": "shop", "roles": ["read"], "tokenSecret": {"name": "shop"}}
READER: Body = {
    "name": "reader",
    "roles": ["read"],
    "serviceAccount": {"namespace": "test", "name": "reader"},
}
HASH = TokenHash(f"sha256:{'a' * 64}")
KEYS = ClusterKeys('{"keys":[{}]}', "https://issuer")
FACTS = AccessFacts({("shop", "token"): HASH}, operator=TokenHash(f"sha256:{'b' * 64}"), now_s=1)


def spec(*clients: Body) -> QuorumSpec:
    return QuorumSpec.model_validate({"voters": 3, "access": {"clients": clients or [SHOP]}})


def observed(facts: AccessFacts | None = FACTS, *, guarded: bool = False) -> Observation:
    now = healthy()
    pods = tuple(replace(pod, guarded=guarded) for pod in now.pods)
    return replace(now, pods=pods, access=facts)


def desired(wanted: QuorumSpec, facts: Observation, *live: Body) -> Desired:
    return compare(OWNER, wanted, facts, live)


def live_set() -> Body:
    """The StatefulSet of a quorum that serves without access control."""
    return dict(desired(QuorumSpec(), observed(None)).bodies[SET])


def pod_spec(body: Body) -> Body:
    return body["spec"]["template"]["spec"]


def ready(facts: Observation) -> Condition | None:
    shown = conditions(facts, 3, Done("all well"), (), Stamp("now", 1))
    return next((each for each in shown if each.type == "AccessReady"), None)


@pytest.mark.without(
    "kraftquorum_operator.judge.access:is_access_missing",
    "return files is None or (accounts and files.keys is None)",
    "return False",
)
def test_the_files_are_written_before_a_pod_mounts_them() -> None:
    """A pod whose Secret is not there, or lacks an entry, could not start."""
    first = desired(
        spec(), observed(replace(FACTS, operator=None, fresh_token="t" * 32)), live_set()
    )
    assert TOKEN in first.outdated
    assert FILE not in first.bodies
    second = desired(spec(), observed(), live_set())
    assert FILE in second.outdated
    assert SET not in second.outdated
    assert "volumes" not in pod_spec(second.bodies[SET])
    third = desired(spec(), observed(replace(FACTS, files=AccessFiles())), live_set())
    assert SET in third.outdated
    (volume,) = pod_spec(third.bodies[SET])["volumes"]
    assert volume["secret"]["secretName"] == "demo-access"
    # If a person deletes the Secret, no pod loses its access control.
    assert SET not in desired(spec(), observed(), third.bodies[SET]).outdated
    # A new quorum starts no node without it.
    assert SET not in desired(spec(), observed()).bodies
    # The first ServiceAccount needs the keys first, too.
    facts = replace(FACTS, keys=KEYS, files=AccessFiles())
    fourth = desired(spec(SHOP, READER), observed(facts), third.bodies[SET])
    assert FILE in fourth.outdated
    assert SET not in fourth.outdated


def test_pods_get_the_files_the_issuer_and_no_hook_that_would_need_a_token() -> None:
    facts = replace(FACTS, keys=KEYS, files=AccessFiles(KEYS))
    body = desired(spec(SHOP, READER), observed(facts), live_set()).bodies[SET]
    (container,) = pod_spec(body)["containers"]
    settings = {each["name"]: each.get("value") for each in container["env"]}
    assert settings["RAFTNODE_ACCESS_FILE"] == "/etc/kraftquorum/access/access.json"
    assert settings["RAFTNODE_ACCESS_JWKS_FILE"] == "/etc/kraftquorum/access/jwks.json"
    assert settings["RAFTNODE_ACCESS_TOKEN_ISSUER"] == "https://issuer"
    assert "lifecycle" not in container
    (volume,) = pod_spec(body)["volumes"]
    keys = {item["key"] for item in volume["secret"]["items"]}
    assert keys == {"access.json", "jwks.json"}, "the state of tokens is no node's business"
    (plain,) = pod_spec(live_set())["containers"]
    assert plain["lifecycle"]["preStop"]


def test_an_entry_that_cannot_be_used_changes_nothing_and_is_reported() -> None:
    bad = Unusable("SecretMissing", "there is no Secret shop")
    facts = observed(replace(FACTS, tokens={("shop", "token"): bad}, files=AccessFiles()))
    wanted = desired(spec(), facts, live_set())
    assert FILE not in wanted.bodies
    marked = wanted.mark(facts)
    condition = ready(marked)
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "SecretMissing")
    assert condition.message == (
        "spec.access.clients[0].tokenSecret: there is no Secret shop; the previous access file "
        "stays in force"
    )
    (alarm,) = access_alarms(marked)
    assert (alarm.subject, alarm.reason) == ("spec.access.clients[0].tokenSecret", "SecretMissing")


def test_the_condition_is_true_once_every_pod_has_the_file_that_is_wanted() -> None:
    facts = observed(replace(FACTS, files=AccessFiles()))
    wanted = desired(spec(), facts)
    not_written = ready(wanted.mark(facts))
    assert not_written is not None
    assert not_written.reason == "NotWritten"
    written = dict(wanted.bodies[FILE])
    now = desired(spec(), facts, written)
    rolling = ready(now.mark(facts))
    assert rolling is not None
    assert (rolling.status, rolling.reason) == ("False", "RollingOut")
    assert "demo-0, demo-1, demo-2: allows every request" in rolling.message
    guarded = observed(replace(FACTS, files=AccessFiles()), guarded=True)
    done = ready(desired(spec(), guarded, written).mark(guarded))
    assert done is not None
    assert (done.status, done.reason) == ("True", "Enforced")


@pytest.mark.without(
    "kraftquorum_operator.judge.access:access_obstacle",
    "if not pod.guarded",
    "if not pod.guarded and not pod.terminating",
)
def test_a_pod_that_is_being_deleted_allows_every_request_until_it_is_gone() -> None:
    guarded = observed(replace(FACTS, files=AccessFiles()), guarded=True)
    written = dict(desired(spec(), guarded).bodies[FILE])
    old, *others = guarded.pods
    going = replace(guarded, pods=(replace(old, guarded=False, terminating=True), *others))
    rolling = ready(desired(spec(), going, written).mark(going))
    assert rolling is not None
    assert rolling.reason == "RollingOut"
    assert rolling.message.startswith(f"{old.name}: ")


def test_a_secret_of_another_owner_is_not_the_access_file() -> None:
    facts = replace(observed(guarded=True), refused=((FILE, "it belongs to another owner"),))
    condition = ready(desired(spec(), facts).mark(facts))
    assert condition is not None
    assert condition.reason == "NotWritten"


def test_without_access_control_there_is_no_condition_and_no_secret() -> None:
    now = observed(None)
    wanted = desired(QuorumSpec(), now)
    assert not {FILE, TOKEN} & set(wanted.bodies)
    assert ready(wanted.mark(now)) is None


def test_a_secret_that_another_client_changed_is_put_right() -> None:
    facts = observed(replace(FACTS, files=AccessFiles()))
    wanted = dict(desired(spec(), facts).bodies[FILE])
    assert not has_drifted(wanted, wanted)
    changed = wanted | {"data": wanted["data"] | {"access.json": "e30="}}
    assert has_drifted(wanted, changed)
    assert FILE in desired(spec(), facts, changed).outdated
    # An apply would not remove another client's entry: the operator would write it for ever.
    more = wanted | {"data": wanted["data"] | {"note": "e30="}}
    assert FILE not in desired(spec(), facts, more).outdated


# --- the operator's own token ----------------------------------------------------------------


class Nodes:
    def __init__(self) -> None:
        self.accesses: dict[str, NodeAccess] = {}

    def secure(self, quorum: str, accesses: Any) -> None:
        assert quorum == "test/demo"
        self.accesses = accesses


DOMAIN = names.domain("test", "demo", "corp.example")


PODS = [
    Pod("demo-0", "a", 0, address="10.0.0.1"),
    Pod("demo-1", "b", 1, address="10.0.0.2", tls="required"),
    Pod("demo-2", "c", 2),
]


def test_the_token_goes_to_each_pod_with_and_without_tls() -> None:
    nodes: Any = Nodes()
    access = NodeAccess(b"CA")
    secure_nodes(nodes, OWNER, PODS, access, token="token", tls_token="token", domain=DOMAIN)
    plain, secured = nodes.accesses["10.0.0.1:9080"], nodes.accesses["10.0.0.2:9080"]
    assert plain == NodeAccess(token="token")
    assert (secured.authorities, secured.token) == (b"CA", "token")
    assert secured.server_name == f"demo-1.{DOMAIN}"
    assert set(nodes.accesses) == {"10.0.0.1:9080", "10.0.0.2:9080"}
    secure_nodes(nodes, OWNER, PODS, None, domain=DOMAIN)
    assert nodes.accesses == {}


def test_a_pod_that_knows_the_operator_s_certificate_gets_no_token() -> None:
    nodes: Any = Nodes()
    secure_nodes(nodes, OWNER, PODS, NodeAccess(b"CA", b"own"), token="token", domain=DOMAIN)
    plain, secured = nodes.accesses["10.0.0.1:9080"], nodes.accesses["10.0.0.2:9080"]
    assert (secured.certificate, secured.token) == (b"own", "")
    assert plain.token == "token", "it is known by nothing else"


def own_store(*uris: str) -> Certificates:
    leaf = Leaf("leaf", "ca", 0, 10, uris=frozenset(uris))
    return Certificates(1, operator=KeyStore("uid", "1", leaves=((OPERATOR, leaf),)))


def test_the_operator_has_the_name_that_the_access_file_has_or_sends_its_token() -> None:
    """A Secret of one's own may have no certificate for the operator, or one without the name."""
    assert has_name(own_store("own"), "own")
    assert not has_name(own_store("another", "own"), "own"), "it may be another subject's"
    assert not has_name(own_store("another"), "own")
    assert not has_name(own_store(), None)
    assert not has_name(Certificates(1), "own")
    assert not has_name(Certificates(1, operator=KeyStore("uid", "1")), "own")
    assert not has_name(None, "own")


RESERVED = Certificates(1, authority=AuthoritySecret("uid", "1", cluster_id="of-the-ca"))


def test_the_first_file_names_the_operator_by_the_id_that_the_certificates_have() -> None:
    """Else the nodes of a new quorum would learn its name minutes after they have formed."""
    wanted = QuorumSpec.model_validate(
        {"voters": 3, "access": {"clients": [SHOP]}, "tls": {"mode": "Managed"}}
    )
    new = replace(healthy(), latch=None, remembered_cluster_id=None, access=FACTS)
    named = desired(wanted, replace(new, certificates=RESERVED)).bodies[FILE]
    text = base64.b64decode(named["data"]["access.json"]).decode()
    assert names.operator_identity("of-the-ca") in text
    known = replace(new, certificates=RESERVED, remembered_cluster_id="of-the-quorum")
    text = base64.b64decode(desired(wanted, known).bodies[FILE]["data"]["access.json"]).decode()
    assert names.operator_identity("of-the-quorum") in text
    assert "of-the-ca" not in text


def test_the_client_presents_the_token_and_no_repr_has_it() -> None:
    access = NodeAccess(token="a secret of the operator")
    assert "a secret" not in repr(access)
    files = CredentialFiles(access)
    assert files.credentials.token_file is not None
    assert files.credentials.token_file.read_text() == "a secret of the operator"
    assert files.credentials.plaintext_token
    assert "a secret" not in repr(files.credentials)
