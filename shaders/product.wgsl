// The inner loop of every matrix product: a workgroup of 8 × 16 threads makes a 64 × 64 tile, a thread eight rows of
// one vec4. Tiles lie in shared memory depth first, so that a step of depth reads three vec4 for 32 multiply-adds.
// Written out by hand: a loop over an array of accumulators would put them into scratch memory.

struct Tile {
    r0: vec4<f32>, r1: vec4<f32>, r2: vec4<f32>, r3: vec4<f32>,
    r4: vec4<f32>, r5: vec4<f32>, r6: vec4<f32>, r7: vec4<f32>,
}

var<workgroup> left_tile: array<vec4<f32>, TILE_QUADS>;  // (DEPTH, TILE / 4)
var<workgroup> right_tile: array<vec4<f32>, TILE_QUADS>; // (DEPTH, TILE / 4)

fn step(tile: ptr<function, Tile>, depth: u32, thread: u32) {
    let at = depth * 16u;
    let low = left_tile[at + 2u * (thread / 16u)];
    let high = left_tile[at + 2u * (thread / 16u) + 1u];
    let right = right_tile[at + thread % 16u];
    (*tile).r0 = fma(vec4<f32>(low.x), right, (*tile).r0);
    (*tile).r1 = fma(vec4<f32>(low.y), right, (*tile).r1);
    (*tile).r2 = fma(vec4<f32>(low.z), right, (*tile).r2);
    (*tile).r3 = fma(vec4<f32>(low.w), right, (*tile).r3);
    (*tile).r4 = fma(vec4<f32>(high.x), right, (*tile).r4);
    (*tile).r5 = fma(vec4<f32>(high.y), right, (*tile).r5);
    (*tile).r6 = fma(vec4<f32>(high.z), right, (*tile).r6);
    (*tile).r7 = fma(vec4<f32>(high.w), right, (*tile).r7);
}

// Adds what the two shared tiles hold, DEPTH steps.
fn multiply(tile: ptr<function, Tile>, thread: u32) {
    for (var depth = 0u; depth < DEPTH; depth += 4u) {
        step(tile, depth, thread);
        step(tile, depth + 1u, thread);
        step(tile, depth + 2u, thread);
        step(tile, depth + 3u, thread);
    }
}

// Hands each of the thread's eight rows to the stage's `store(row, column quad, value)`.
fn store_tile(tile: Tile, row_tile: u32, column_tile: u32, thread: u32) {
    let row = row_tile * TILE + 8u * (thread / 16u);
    let column = column_tile * 16u + thread % 16u;
    store(row, column, tile.r0);
    store(row + 1u, column, tile.r1);
    store(row + 2u, column, tile.r2);
    store(row + 3u, column, tile.r3);
    store(row + 4u, column, tile.r4);
    store(row + 5u, column, tile.r5);
    store(row + 6u, column, tile.r6);
    store(row + 7u, column, tile.r7);
}
