# The collector and the simulated engine in an image with nothing else: no shell, no
# package manager, not root. Build it in the repository's root:
#
#   docker build -t otelcol-sglang .
#
# The images named here come from your registry's default; pin them by digest in yours.
FROM golang:1.26 AS build
WORKDIR /src
COPY . .
RUN make build && install -d -m 0750 -o 10001 -g 10001 /empty/queue

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /src/bin/ /usr/bin/
COPY --from=build /src/config/*.yaml /etc/otelcol-sglang/
COPY --from=build /src/config/kubernetes/pod.yaml /etc/otelcol-sglang/
COPY --from=build --chown=10001:10001 /empty/queue /var/lib/otelcol-sglang
USER 10001:10001
# OTLP gRPC and HTTP, metrics, the collector's own metrics, health.
EXPOSE 4317 4318 8889 8888 13133
ENTRYPOINT ["/usr/bin/otelcol-sglang"]
CMD ["--config=/etc/otelcol-sglang/agent.yaml"]
