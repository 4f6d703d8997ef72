# The container image: the program, certificate authorities and time zones, and nothing else.
#   make image                              builds it and names it parley:VERSION
#   docker build -t parley .                the same, called "dev"
# docs/OPERATIONS.md, "Install", says how to run it. No program is in it that command-line agents or MCP servers
# are: an image for those starts FROM one that has them, with COPY --from=parley /usr/local/bin/parley /usr/local/bin/.

# The builder; any image with this Go or a newer one, as a mirror of yours has it.
ARG BUILDER=golang:1.26.8-bookworm
FROM ${BUILDER} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# The context has no .git, so the commit is told from outside.
ARG VERSION=dev
ARG REVISION=
ARG DATE=
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false \
      -ldflags "-s -w -X parley/cmd/parley/internal/build.linkedVersion=${VERSION} -X parley/cmd/parley/internal/build.linkedRevision=${REVISION} -X parley/cmd/parley/internal/build.linkedDate=${DATE}" \
      -o /image/usr/local/bin/parley ./cmd/parley \
 && mkdir -p /image/etc/ssl/certs /image/etc/parley /image/usr/share /image/tmp /image-data \
 && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ \
 && cp -R "$(go env GOROOT)/lib/time" /image/usr/share/go-time \
 && echo 'parley:x:65532:65532:parley:/data:/sbin/nologin' > /image/etc/passwd \
 && echo 'parley:x:65532:' > /image/etc/group \
 && chmod 1777 /image/tmp && chmod 700 /image-data

FROM scratch
ARG VERSION=dev
ARG REVISION=
ARG DATE=
LABEL org.opencontainers.image.title="parley" \
      org.opencontainers.image.description="A conversation engine: people write whenever they like, everyone gets their own answer, in order, durably, live." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${DATE}"
COPY --from=build /image/ /
COPY --from=build --chown=65532:65532 /image-data/ /data/
# A published port ends at an address that is not the loopback, and there the server wants to know who is who:
# "docker exec NAME parley key create --user me" makes the first key. The configuration is /etc/parley/config.toml, if
# it is mounted, and each key of it a variable.
ENV PATH=/usr/local/bin \
    ZONEINFO=/usr/share/go-time/zoneinfo.zip \
    PARLEY_DATA=/data/parley \
    PARLEY_LISTEN=0.0.0.0:8080 \
    PARLEY_AUTH_MODE=keys
WORKDIR /etc/parley
USER 65532:65532
VOLUME /data
EXPOSE 8080
# A start may read a long log first; what is degraded still serves.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["/usr/local/bin/parley", "health"]
ENTRYPOINT ["/usr/local/bin/parley"]
CMD ["serve"]
