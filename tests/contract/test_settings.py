"""Environment, arguments and files of a container."""


def literal(name, value):
    return {"name": name, "value": value}


def field(name, path):
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def key_of(name, kind, source, key, **more):
    return {"name": name, "valueFrom": {f"{kind}KeyRef": {"name": source, "key": key, **more}}}


def test_environment_is_made_of_literals_fields_and_references(place):
    place.kubectl("create", "configmap", "settings", "--from-literal=colour=red")
    place.kubectl("create", "secret", "generic", "keys", "--from-literal=token=abc")
    place.pod(
        "web",
        {
            "env": [
                literal("A", "one"),
                literal("B", "$(A)-$(POD_IP)"),
                literal("ESCAPED", "$$(A)"),
                literal("UNKNOWN", "$(NOWHERE)"),
                literal("LATER", "$(AFTER)"),
                literal("AFTER", "two"),
                field("POD", "metadata.name"),
                field("NAMESPACE", "metadata.namespace"),
                field("UID_", "metadata.uid"),
                field("NODE", "spec.nodeName"),
                field("HOST", "status.hostIP"),
                field("LABEL", "metadata.labels['app']"),
                field("NOTE", "metadata.annotations['note']"),
                key_of("COLOUR", "configMap", "settings", "colour"),
                key_of("TOKEN", "secret", "keys", "token"),
                key_of("ABSENT", "configMap", "settings", "shape", optional=True),
            ],
            "envFrom": [{"prefix": "ALL_", "configMapRef": {"name": "settings"}}],
        },
        metadata={"labels": {"app": "web"}, "annotations": {"note": "hello"}},
    )
    place.until_up("web")
    env = place.ask("web", "env")
    pod = place.get("pod/web")
    wanted = {
        "A": "one",
        "B": f"one-{pod['status']['podIP']}",
        "ESCAPED": "$(A)",
        "UNKNOWN": "$(NOWHERE)",
        "LATER": "$(AFTER)",
        "POD": "web",
        "NAMESPACE": place.namespace,
        "UID_": pod["metadata"]["uid"],
        "NODE": pod["spec"]["nodeName"],
        "HOST": pod["status"]["hostIP"],
        "LABEL": "web",
        "NOTE": "hello",
        "COLOUR": "red",
        "TOKEN": "abc",
        "ALL_colour": "red",
        "HOSTNAME": "web",
    }
    assert {name: env.get(name) for name in wanted} == wanted
    assert "ABSENT" not in env


def test_arguments_are_expanded(place):
    place.pod("web", {"args": ["$(POD_IP)", "$$(POD_IP)", "$(NOWHERE)", "plain"]})
    place.until_up("web")
    address = place.status("web")["podIP"]
    assert place.ask("web", "args") == [address, "$(POD_IP)", "$(NOWHERE)", "plain"]


def test_missing_reference_holds_the_container_until_it_is_there(place):
    place.pod("web", {"env": [key_of("X", "configMap", "late", "x")]})
    place.until(lambda: place.waiting("web") == "CreateContainerConfigError", "waiting")
    assert place.phase("web") == "Pending"
    place.kubectl("create", "configmap", "late", "--from-literal=x=1")
    place.until_up("web")
    assert place.ask("web", "env")["X"] == "1"
    assert place.container("web")["restartCount"] == 0


def test_configuration_is_mounted_as_files(place):
    place.kubectl("create", "configmap", "settings", "--from-literal=colour=red")
    place.kubectl("create", "secret", "generic", "keys", "--from-literal=token=abc")
    place.pod(
        "web",
        {
            "env": [literal("CONFIG", "/etc/settings/colour"), literal("KEYS", "/etc/keys/t")],
            "volumeMounts": [
                {"name": "config", "mountPath": "/etc/settings"},
                {"name": "keys", "mountPath": "/etc/keys", "readOnly": True},
            ],
        },
        volumes=[
            {"name": "config", "configMap": {"name": "settings"}},
            {
                "name": "keys",
                "secret": {"secretName": "keys", "items": [{"key": "token", "path": "t"}]},
            },
        ],
    )
    place.until_up("web")
    env = place.ask("web", "env")
    assert place.ask("web", "read", path=env["CONFIG"]) == "red"
    assert place.ask("web", "read", path=env["KEYS"]) == "abc"
