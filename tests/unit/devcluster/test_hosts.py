from kraftquorum_devcluster.processnode.hosts import HostEntry, HostsFiles, render

ENTRY = HostEntry("ns", "web-0", "web", "127.77.1.2")


def test_short_name_is_known_only_in_its_own_namespace():
    inside = render([ENTRY], "ns")
    assert (
        "127.77.1.2\tweb-0.web.ns.svc.cluster.local web-0.web.ns.svc web-0.web.ns web-0.web\n"
        in inside
    )
    outside = render([ENTRY], "other")
    assert "web-0.web.ns\n" in outside


def test_pod_without_subdomain_has_no_name():
    assert render([HostEntry("ns", "p", "", "127.77.1.3")], "ns") == "127.0.0.1\tlocalhost\n"


def test_files_follow_the_pods(tmp_path):
    files = HostsFiles(tmp_path / "hosts")
    mine = files.path("ns")
    assert mine.read_text() == "127.0.0.1\tlocalhost\n"
    files.set("web-0", ENTRY)
    assert "web-0.web\n" in mine.read_text()
    assert "web-0.web.ns.svc" in files.path("").read_text()
    files.drop("ns", "web-0")
    assert mine.read_text() == "127.0.0.1\tlocalhost\n"
    assert {path.name for path in mine.parent.iterdir()} == {"ns", "all"}, "no temporary left"
