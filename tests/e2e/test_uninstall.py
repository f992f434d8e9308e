"""The operator goes; the data stays, and the next operator takes it over."""


def test_uninstall_and_install(case):
    """Uninstalled, a pod killed meanwhile, installed again; then a disk lost"""
    quorum = case.formed(3)
    voters, cluster_id = quorum.voters(), quorum.status()["clusterId"]
    uids, claims = quorum.uids("pods"), quorum.uids("persistentvolumeclaims")
    pod = quorum.pod(quorum.follower())
    with case.timed(quorum):
        case.release.uninstall()
        quorum.until("the operator's pod gone", lambda: not case.release.pods())
        assert quorum.body(), "the CRD and the resource stay"
        restarts = quorum.restarts(pod)
        case.e2e_cluster.kill(quorum.namespace, pod)
        quorum.until("started again", lambda: quorum.restarts(pod) > restarts)
        case.release.install()
        quorum.until_ready(3)
        assert quorum.voters() == voters
        assert quorum.uids("pods") == uids
        assert quorum.uids("persistentvolumeclaims") == claims
        node_id = quorum.follower()
        pod = quorum.pod(node_id)
        case.e2e_cluster.wipe(quorum.namespace, pod, quorum.claim(pod))
        quorum.until_replaced(node_id, voters[node_id])
    assert quorum.status()["clusterId"] == cluster_id


def test_deleted_and_adopted(case):
    """The resource deleted and applied again: its claims are adopted, with all data"""
    quorum = case.formed(3)
    voters, cluster_id = quorum.voters(), quorum.status()["clusterId"]
    claims = quorum.uids("persistentvolumeclaims")
    with case.timed(quorum):
        quorum.kubectl("delete", "krq", quorum.name, "--timeout=90s")
        quorum.until("no pods", lambda: not quorum.all("pods"))
        assert quorum.uids("persistentvolumeclaims") == claims
        quorum.apply(voters=3)
        quorum.until_ready(3)
    assert quorum.voters() == voters
    assert quorum.status()["clusterId"] == cluster_id
    assert quorum.uids("persistentvolumeclaims") == claims
