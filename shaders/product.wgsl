// The inner loop of every matrix product. A workgroup of 8 × 16 threads makes a tile of 64 × 64, a thread eight rows of
// one vec4; where there is enough to do, 16 × 16 threads make one of 128 × 128, a thread eight rows of two (WIDE).
// Tiles lie in shared memory depth first: a step of depth reads three vec4 for 32 multiply-adds, or four for 64.
// Written out by hand: a loop over an array of accumulators would put them into scratch memory. The arrays are nested,
// because every index is checked: that of an inner array once for a whole tile, a sum of products at every step.

#use tile

const LANES: u32 = DEPTH / 4u;

// The second quad of a wide tile's columns is s.
struct Tile {
    r0: vec4<f32>, r1: vec4<f32>, r2: vec4<f32>, r3: vec4<f32>,
    r4: vec4<f32>, r5: vec4<f32>, r6: vec4<f32>, r7: vec4<f32>,
    s0: vec4<f32>, s1: vec4<f32>, s2: vec4<f32>, s3: vec4<f32>,
    s4: vec4<f32>, s5: vec4<f32>, s6: vec4<f32>, s7: vec4<f32>,
}

var<workgroup> left_tile: array<array<array<vec4<f32>, TILE_QUADS>, 4>, LANES>;
var<workgroup> right_tile: array<array<array<vec4<f32>, TILE_QUADS>, 4>, LANES>;

fn step(tile: ptr<function, Tile>, depth: u32, thread: u32) {
    let low = left_tile[depth / 4u][depth % 4u][2u * (thread / 16u)];
    let high = left_tile[depth / 4u][depth % 4u][2u * (thread / 16u) + 1u];
    let right = right_tile[depth / 4u][depth % 4u][thread % 16u];
    (*tile).r0 = fma(vec4<f32>(low.x), right, (*tile).r0);
    (*tile).r1 = fma(vec4<f32>(low.y), right, (*tile).r1);
    (*tile).r2 = fma(vec4<f32>(low.z), right, (*tile).r2);
    (*tile).r3 = fma(vec4<f32>(low.w), right, (*tile).r3);
    (*tile).r4 = fma(vec4<f32>(high.x), right, (*tile).r4);
    (*tile).r5 = fma(vec4<f32>(high.y), right, (*tile).r5);
    (*tile).r6 = fma(vec4<f32>(high.z), right, (*tile).r6);
    (*tile).r7 = fma(vec4<f32>(high.w), right, (*tile).r7);
    if (WIDE) {
        let second = right_tile[depth / 4u][depth % 4u][thread % 16u + TILE_QUADS - 16u];
        (*tile).s0 = fma(vec4<f32>(low.x), second, (*tile).s0);
        (*tile).s1 = fma(vec4<f32>(low.y), second, (*tile).s1);
        (*tile).s2 = fma(vec4<f32>(low.z), second, (*tile).s2);
        (*tile).s3 = fma(vec4<f32>(low.w), second, (*tile).s3);
        (*tile).s4 = fma(vec4<f32>(high.x), second, (*tile).s4);
        (*tile).s5 = fma(vec4<f32>(high.y), second, (*tile).s5);
        (*tile).s6 = fma(vec4<f32>(high.z), second, (*tile).s6);
        (*tile).s7 = fma(vec4<f32>(high.w), second, (*tile).s7);
    }
}

fn four_steps(tile: ptr<function, Tile>, depth: u32, thread: u32) {
    step(tile, depth, thread);
    step(tile, depth + 1u, thread);
    step(tile, depth + 2u, thread);
    step(tile, depth + 3u, thread);
}

// Adds what the two shared tiles hold, DEPTH steps.
fn multiply(tile: ptr<function, Tile>, thread: u32) {
    four_steps(tile, 0u, thread);
    four_steps(tile, 4u, thread);
    four_steps(tile, 8u, thread);
    four_steps(tile, 12u, thread);
}

// Hands each of the thread's rows to the stage's `store(row, column quad, value)`.
fn store_tile(tile: Tile, row_tile: u32, column_tile: u32, thread: u32) {
    let row = row_tile * TILE + 8u * (thread / 16u);
    let column = column_tile * TILE_QUADS + thread % 16u;
    store(row, column, tile.r0);
    store(row + 1u, column, tile.r1);
    store(row + 2u, column, tile.r2);
    store(row + 3u, column, tile.r3);
    store(row + 4u, column, tile.r4);
    store(row + 5u, column, tile.r5);
    store(row + 6u, column, tile.r6);
    store(row + 7u, column, tile.r7);
    if (WIDE) {
        store(row, column + 16u, tile.s0);
        store(row + 1u, column + 16u, tile.s1);
        store(row + 2u, column + 16u, tile.s2);
        store(row + 3u, column + 16u, tile.s3);
        store(row + 4u, column + 16u, tile.s4);
        store(row + 5u, column + 16u, tile.s5);
        store(row + 6u, column + 16u, tile.s6);
        store(row + 7u, column + 16u, tile.s7);
    }
}
