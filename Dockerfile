# elmo-serve for CPU and GPU: which of the two is a matter of the torch build that is installed.
#
#   docker build -t elmo-serve .
#
# Build arguments: TORCH_INDEX, a package index to take torch from, and torch alone (an index of CPU
# builds makes a small image; without one, pip's own choice, which on x86-64 brings the CUDA
# libraries and runs on a CPU as well); PIP_INDEX_URL, PIP_EXTRA_INDEX_URL and PIP_FIND_LINKS, as pip
# knows them, for builders behind a mirror.

ARG PYTHON_VERSION=3.11

FROM python:${PYTHON_VERSION}-slim AS build
SHELL ["/bin/sh", "-eu", "-c"]
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ARG TORCH_INDEX
WORKDIR /src
COPY constraints.txt pyproject.toml ./
COPY client/pyproject.toml client/
# What changes least comes first: a new line of source code does not install torch again.
RUN --mount=type=cache,target=/root/.cache/pip \
    python -m venv /opt/elmo; \
    /opt/elmo/bin/pip install --constraint constraints.txt --upgrade pip; \
    if [ -n "${TORCH_INDEX:-}" ]; then \
      /opt/elmo/bin/pip install --constraint constraints.txt --no-deps --index-url "$TORCH_INDEX" torch; \
    fi; \
    python -c 'import tomllib; print(*(d for f in ("client/pyproject.toml", "pyproject.toml") for d in tomllib.load(open(f, "rb"))["project"]["dependencies"] if d != "elmo-client"), sep="\n")' \
      > requirements.txt; \
    /opt/elmo/bin/pip install --constraint constraints.txt --requirement requirements.txt
COPY README.md LICENSE ./
COPY client client
COPY model model
COPY service service
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/elmo/bin/pip install --build-constraint constraints.txt --no-deps ./client .; \
    /opt/elmo/bin/pip uninstall --yes pip

FROM python:${PYTHON_VERSION}-slim
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="elmo-serve" \
      org.opencontainers.image.description="ELMo embeddings over HTTP" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# The owner of these folders is what a new volume mounted there starts with.
RUN install -d -o 10001 -g 10001 /models /tasks /cache
COPY --from=build /opt/elmo /opt/elmo
COPY docker/healthcheck.py /opt/elmo/healthcheck.py
# USER and HOME: the numeric user has no entry in /etc/passwd, and only /tmp is sure to be writable.
ENV PATH=/opt/elmo/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp \
    USER=elmo \
    ELMO_HOST=0.0.0.0 \
    ELMO_PORT=8000 \
    ELMO_TASKS=/tasks \
    ELMO_CACHE=/cache
USER 10001:10001
WORKDIR /models
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=3 \
    CMD ["python", "-I", "-S", "/opt/elmo/healthcheck.py"]
# No shell in between: the server itself gets SIGTERM, and reaps its workers.
ENTRYPOINT ["elmo"]
CMD ["serve"]
