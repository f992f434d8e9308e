"""What runs in the contract's pods: a small web server that does what it is told.

Given to Python as one argument, so nothing in here may look like a variable to Kubernetes.
"""

import http.server
import json
import os
import signal
import socket
import sys
import urllib.parse

DATA = os.environ.get("DATA", "")
STATE = {"ready": "START_UNREADY" not in os.environ, "live": True, "deaf": False}


def note(word):
    print(word, flush=True)
    if DATA:
        with open(os.path.join(DATA, "log"), "a") as file:
            file.write(word + "\n")


def told_to_end(number, frame):
    note("told to end")
    if not STATE["deaf"]:
        os._exit(0)


def resolve(name):
    hosts = os.environ.get("KRAFTQUORUM_HOSTS_FILE")
    if hosts is None:
        return sorted({found[4][0] for found in socket.getaddrinfo(name, 80, socket.AF_INET)})
    with open(hosts) as file:
        lines = [line.split() for line in file]
    found = sorted({words[0] for words in lines if name in words[1:]})
    if not found:
        raise OSError("no such name")
    return found


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        try:
            code, answer = self.act(url.path.split("/")[1:], query)
        except OSError as error:
            code, answer = 500, str(error)
        body = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def act(self, path, query):
        if path[0] == "probe":
            return (200 if STATE[path[1]] else 503), path[1]
        if path[0] == "set":
            STATE[path[1]] = path[2] == "true"
            return 200, STATE
        if path[0] == "env":
            return 200, dict(os.environ)
        if path[0] == "args":
            return 200, sys.argv[1:]
        if path[0] == "read":
            with open(query["path"]) as file:
                return 200, file.read()
        if path[0] == "write":
            with open(query["path"], "w") as file:
                file.write(query["text"])
            return 200, "written"
        if path[0] == "resolve":
            return 200, resolve(query["name"])
        if path[0] == "exit":
            if "message" in query:
                with open(os.environ.get("TERMINATION_LOG", "/dev/termination-log"), "w") as file:
                    file.write(query["message"])
            print("ending as told", flush=True)
            os._exit(int(query["code"]))
        return 404, "no such thing"

    def log_message(self, *words):
        pass


signal.signal(signal.SIGTERM, told_to_end)
server = http.server.ThreadingHTTPServer((os.environ.get("POD_IP", "127.0.0.1"), 8080), Handler)
note("up")
server.serve_forever()
