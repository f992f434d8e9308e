"""Another image under load, and nodes that are drained."""

from kraftquorum_devcluster.errors import CommandError


def rolled(quorum, image, before):
    """Whether every pod was made again and runs an image."""
    pods = quorum.all("pods")
    images = {pod["spec"]["containers"][0]["image"] for pod in pods}
    recreated = not set(quorum.uids("pods").values()) & set(before.values())
    return images == {image} and recreated and quorum.is_ready(3)


def test_rolling_upgrade(case):
    """Rolling upgrade to a second image and back"""
    quorum = case.formed(3)
    tags, voters = case.e2e_cluster.tags, quorum.voters()
    with case.timed(quorum) as seconds:
        for tag in (tags.next, tags.now):
            before, image = quorum.uids("pods"), tags.image("node", tag)
            quorum.patch(image=image)
            quorum.until(
                f"rolled to {tag}", lambda image=image, before=before: rolled(quorum, image, before)
            )
            case.figures.measures.setdefault("upgrade_s", round(seconds(), 1))
    case.figures.until = "all pods run the first image again"
    case.figures.measures["upgrade_stall_s"] = case.figures.stall_s
    assert quorum.voters() == voters


def test_drain(case):
    """The leader's node drained; the budget then refuses to drain a second one"""
    quorum = case.formed(3)
    voters = quorum.voters()
    nodes = {one["metadata"]["name"]: one["spec"]["nodeName"] for one in quorum.all("pods")}
    assert len(set(nodes.values())) == 3, "one pod on each node"
    first = quorum.pod(quorum.leader())
    second = next(pod for pod in nodes if pod != first)
    uid = quorum.uids("pods")[second]
    try:
        with case.timed(quorum) as seconds:
            case.e2e_cluster.kubectl(*drain(nodes[first]), "--timeout=100s")
            case.figures.measures["drained_s"] = round(seconds(), 1)
            said = ""
            try:
                case.e2e_cluster.kubectl(*drain(nodes[second]), "--timeout=20s")
            except CommandError as error:
                said = str(error)
            assert "disruption budget" in said, said
            assert quorum.uids("pods")[second] == uid
            quorum.until_true("Available")
            for node in (nodes[first], nodes[second]):
                case.e2e_cluster.kubectl("uncordon", node)
            quorum.until_ready(3)
    finally:
        for node in (nodes[first], nodes[second]):
            case.e2e_cluster.kubectl("uncordon", node)
    case.figures.until = "both nodes taken back, full redundancy"
    assert quorum.voters() == voters


def drain(node):
    return ["drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force"]
