# The images of kraftquorum: `operator` and `node`. See docs/howto/image.md.
#
#     docker build --target node --tag ghcr.io/kraftquorum/node:0.1.0 .
#
# Both are Python, its standard library and ours on an empty file system: no shell, no
# package manager. Any Debian with Python 3.11 or later serves as the base that they are
# collected from; every stage runs on the platform that is built for.

ARG BASE=debian:trixie-slim

# ---- what builds: never part of an image -------------------------------------------------

FROM ${BASE} AS build
# A base that has Python needs no package index.
RUN python3 -c "import ensurepip, venv" 2>/dev/null && [ -e /etc/ssl/certs/ca-certificates.crt ] \
    || { apt-get update && apt-get install --yes --no-install-recommends \
        ca-certificates python3 python3-venv; }
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /src
# Settings of a machine's own package index, if it has any, come as build secrets, so that
# they are in no layer: `--secret id=pip,src=/etc/pip.conf --secret id=ca,src=bundle.pem`.
COPY requirements/build.txt requirements/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=ca \
    python3 -m venv /build \
    && /build/bin/pip install --quiet --require-hashes --requirement requirements/build.txt

FROM build AS runtime-files
COPY tools/collect_runtime.py /
RUN python3 /collect_runtime.py collect /rootfs

FROM build AS node-files
COPY requirements/node.txt requirements/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=ca \
    python3 -m venv --without-pip /opt/kraftquorum \
    && /build/bin/pip --python /opt/kraftquorum/bin/python install --quiet --no-compile \
        --require-hashes --only-binary :all: --requirement requirements/node.txt
COPY LICENSE README.md pyproject.toml ./
COPY raftnode raftnode
RUN --mount=type=bind,from=runtime-files,target=/runtime /build/bin/hatchling build --target wheel --directory /wheel \
    && /build/bin/pip --python /opt/kraftquorum/bin/python install --quiet --no-compile \
        --no-deps --no-index /wheel/*.whl \
    && find /opt/kraftquorum/bin ! -name 'python*' ! -name raftnode -type f -delete \
    && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/kraftquorum/lib \
    && python3 /runtime/collect_runtime.py check /runtime/rootfs /opt/kraftquorum

FROM build AS operator-files
COPY requirements/operator.txt requirements/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=ca \
    python3 -m venv --without-pip /opt/kraftquorum \
    && /build/bin/pip --python /opt/kraftquorum/bin/python install --quiet --no-compile \
        --require-hashes --only-binary :all: --requirement requirements/operator.txt
COPY LICENSE README.md pyproject.toml ./
COPY raftnode raftnode
COPY operator operator
# The client's classes for each API are a hundred megabytes that nothing here imports:
# the operator speaks to the API server in dicts, over the client's connection.
RUN --mount=type=bind,from=runtime-files,target=/runtime /build/bin/hatchling build --target wheel --directory /wheel \
    && /build/bin/pip --python /opt/kraftquorum/bin/python install --quiet --no-compile \
        --no-deps --no-index /wheel/*.whl \
    && find /opt/kraftquorum/bin ! -name 'python*' ! -name kraftquorum-operator -type f -delete \
    && rm -r /opt/kraftquorum/lib/python3*/site-packages/kubernetes/client/api \
        /opt/kraftquorum/lib/python3*/site-packages/kubernetes/aio/client/api \
    && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/kraftquorum/lib \
    && python3 /runtime/collect_runtime.py check /runtime/rootfs /opt/kraftquorum

# ---- the images --------------------------------------------------------------------------

FROM scratch AS runtime
COPY --from=runtime-files /rootfs /
ENV PATH=/opt/kraftquorum/bin:/usr/bin \
    LANG=C.UTF-8 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
USER 10001:10001
WORKDIR /

FROM runtime AS operator
COPY --from=operator-files /opt/kraftquorum /opt/kraftquorum
ENTRYPOINT ["kraftquorum-operator"]
CMD ["run"]
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="kraftquorum operator" \
      org.opencontainers.image.description="Keeps Raft quorums alive on Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

FROM runtime AS node
COPY --from=node-files /opt/kraftquorum /opt/kraftquorum
EXPOSE 9080 9093
ENTRYPOINT ["raftnode"]
CMD ["run"]
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="kraftquorum node" \
      org.opencontainers.image.description="A node of a Raft quorum" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
