# The image of elmo-serve. The torch build decides whether it runs on a CPU or on a GPU.
#
#   docker build -t elmo-serve .                               CPU
#   docker build -t elmo-serve:cuda --build-arg TORCH_INDEX= . CUDA, several gigabytes larger
#
# Build arguments: BASE is the Python image; a release names it by its digest
# (--build-arg BASE=python@sha256:...), so that it can be built again. TORCH_INDEX is the package index of torch alone (default: PyTorch's CPU builds;
# empty: pip's own index, whose x86-64 build of torch is CUDA). PIP_INDEX_URL, PIP_EXTRA_INDEX_URL
# and PIP_FIND_LINKS are pip's own variables, for builds behind a mirror.

ARG BASE=python:3.11-slim

FROM ${BASE} AS build
SHELL ["/bin/sh", "-eu", "-c"]
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
WORKDIR /src
COPY constraints.txt pyproject.toml ./
COPY client/pyproject.toml client/
# Dependencies come first: a change of the source does not install torch again.
RUN --mount=type=cache,target=/root/.cache/pip \
    python -m venv /opt/elmo; \
    /opt/elmo/bin/pip install --constraint constraints.txt --upgrade pip; \
    if [ -n "${TORCH_INDEX:-}" ]; then \
      /opt/elmo/bin/pip install --constraint constraints.txt --no-deps --index-url "$TORCH_INDEX" torch; \
    fi; \
    python -c 'import tomllib; \
      files = "client/pyproject.toml", "pyproject.toml"; \
      client, server = (tomllib.load(open(file, "rb"))["project"] for file in files); \
      optional = server["optional-dependencies"]; \
      extras = [*optional["traces"]]; \
      needed = [*client["dependencies"], *server["dependencies"], *extras]; \
      print(*(d for d in needed if d != "elmo-client"), sep="\n")' \
      > requirements.txt; \
    /opt/elmo/bin/pip install --constraint constraints.txt --requirement requirements.txt
COPY README.md LICENSE ./
COPY client client
COPY model model
COPY service service
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/elmo/bin/pip install --build-constraint constraints.txt --no-deps ./client .; \
    /opt/elmo/bin/pip uninstall --yes pip

FROM ${BASE}
ARG BASE
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG CREATED=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="elmo-serve" \
      org.opencontainers.image.description="ELMo embeddings over HTTP" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.base.name="${BASE}"
# A new volume that is mounted on one of these folders takes over its owner. Group 0 may write, for
# OpenShift runs the image as any user of that group.
RUN install -d -o 10001 -g 0 -m 0775 /models /tasks /cache
COPY --from=build /opt/elmo /opt/elmo
COPY --chmod=0644 docker/healthcheck.py /opt/elmo/healthcheck.py
# USER and HOME are set because user 10001 has no entry in /etc/passwd; only /tmp is always writable.
ENV PATH=/opt/elmo/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp \
    USER=elmo \
    ELMO_HOST=0.0.0.0 \
    ELMO_PORT=8000 \
    ELMO_TASKS=/tasks \
    ELMO_CACHE=/cache
USER 10001:0
WORKDIR /models
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=3 \
    CMD ["python", "-I", "-S", "/opt/elmo/healthcheck.py"]
# No shell: SIGTERM reaches the server, which reaps its workers.
ENTRYPOINT ["elmo"]
CMD ["serve"]
