# One image for every subcommand: docker build -t isvc-registrar .

FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
# First the dependencies alone, over an empty program: this layer changes only with Cargo.lock. The other members of
# the workspace are there by name, since the lock file speaks of them too.
COPY Cargo.toml Cargo.lock ./
COPY benches/Cargo.toml benches/
COPY tests/cluster/Cargo.toml tests/cluster/
RUN mkdir -p src benches/src benches/micro tests/cluster/src/bin \
 && touch src/lib.rs benches/src/lib.rs benches/micro/review.rs tests/cluster/src/lib.rs \
 && echo 'fn main() {}' | tee src/main.rs benches/src/main.rs > tests/cluster/src/bin/playground.rs \
 && cargo build --release --locked --package isvc-registrar
# Then the program. The empty one must not count as newer.
COPY src src
RUN touch src/main.rs src/lib.rs \
 && cargo build --release --locked --package isvc-registrar --bin isvc-registrar

FROM debian:bookworm-slim
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/target/release/isvc-registrar /usr/local/bin/isvc-registrar
# The C library would keep the memory of large reviews. From this size on, in bytes, it gives it back: docs/performance.md.
ENV MALLOC_MMAP_THRESHOLD_=131072 MALLOC_TRIM_THRESHOLD_=131072
# A number, so that runAsNonRoot can be checked without a look into the image.
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/isvc-registrar"]
