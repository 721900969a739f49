# syntax=docker/dockerfile:1

# The server needs no C library and no shell: the image holds the binary, CA certificates and /data.
#
#	docker build -t baton --build-arg VERSION="$(git describe --tags --always)" .
#	docker run -p 127.0.0.1:8080:8080 -v baton:/data --stop-timeout 45 baton serve --insecure
#
# A container must listen on 0.0.0.0, which Baton refuses over plain HTTP unless --insecure (or
# BATON_INSECURE=true) is set. Publish the port on the host's loopback address, as above, or on a private
# network behind a proxy that terminates TLS. Docker kills after 10 s by default; the stop timeout above
# gives running runs the time of timeouts.drain.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS TARGETARCH VERSION
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN mkdir -p /out/data && CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath \
    -ldflags "-s -w -X github.com/batonrun/baton/cmd.version=$VERSION" -o /out/baton ./cmd/baton

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/baton /usr/bin/baton
COPY --from=build --chown=65532:65532 /out/data /data
WORKDIR /data
VOLUME /data
ENV BATON_LISTEN=0.0.0.0:8080
EXPOSE 8080
# nonroot, as a number: Kubernetes cannot tell of a name that it is not root.
USER 65532:65532
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s CMD ["/usr/bin/baton", "health"]
ENTRYPOINT ["/usr/bin/baton"]
CMD ["serve"]
