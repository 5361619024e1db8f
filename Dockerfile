# Build:  docker build -t skds .
# Run:    docker run --rm -v "$PWD:/work" -w /work --user "$(id -u):$(id -g)" skds fit train.npz -o model.safetensors
# Serve:  docker run --rm -p 127.0.0.1:8765:8765 -v skds-data:/data -e SKDS_TOKEN skds serve --listen 0.0.0.0:8765 --data /data

# The image has the C compiler that SQLite needs.
FROM rust:1-slim-bookworm AS build
WORKDIR /source
COPY . .
RUN cargo build --release --locked --bin skds

FROM debian:bookworm-slim
# Set to mesa-vulkan-drivers to compute on a GPU that the host passes in (for example with --device /dev/dri).
ARG GPU_PACKAGES=""
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates ${GPU_PACKAGES} \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 skds \
    && install --directory --owner skds --group skds --mode 700 /data
COPY --from=build /source/target/release/skds /usr/local/bin/skds
USER skds
WORKDIR /data
VOLUME /data
EXPOSE 8765
ENTRYPOINT ["skds"]
