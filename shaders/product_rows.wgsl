// A tile of L Rᵀ: inner products of rows. The stage says where a row begins, `left_at(row)` and `right_at(row)`, within
// its buffer also for rows of a tile past the last, and reads quad k of it, `left(at, k)` and `right(at, k)`.

// Quad k of four rows, turned so that depth comes first.
fn fetch(is_left: bool, at: vec4<u32>, k: u32) -> mat4x4<f32> {
    if (is_left) { return transpose(mat4x4<f32>(left(at.x, k), left(at.y, k), left(at.z, k), left(at.w, k))); }
    return transpose(mat4x4<f32>(right(at.x, k), right(at.y, k), right(at.z, k), right(at.w, k)));
}

// Into shared memory, once everyone has multiplied what was there. Must be called in uniform control.
fn put(is_left: bool, lane: u32, quad: u32, ahead: mat4x4<f32>) {
    workgroupBarrier();
    if (is_left) {
        left_tile[lane][0][quad] = ahead[0];
        left_tile[lane][1][quad] = ahead[1];
        left_tile[lane][2][quad] = ahead[2];
        left_tile[lane][3][quad] = ahead[3];
    } else {
        right_tile[lane][0][quad] = ahead[0];
        right_tile[lane][1][quad] = ahead[1];
        right_tile[lane][2][quad] = ahead[2];
        right_tile[lane][3][quad] = ahead[3];
    }
    workgroupBarrier();
}

fn product_rows(row_tile: u32, column_tile: u32, depth_quads: u32, thread: u32) {
    // Half of the threads fetch the left rows, the others the right ones: each quad number `lane` of four rows.
    let is_left = thread < TILE;
    let quad = thread % TILE / 4u;
    let lane = thread % LANES;
    let row = select(column_tile, row_tile, is_left) * TILE + 4u * quad;
    var at: vec4<u32>;
    if (is_left) {
        at = vec4<u32>(left_at(row), left_at(row + 1u), left_at(row + 2u), left_at(row + 3u));
    } else {
        at = vec4<u32>(right_at(row), right_at(row + 1u), right_at(row + 2u), right_at(row + 3u));
    }
    let last = depth_quads - 1u;
    var tile = Tile();
    // What comes next is on its way from memory while this is multiplied.
    var ahead = fetch(is_left, at, min(lane, last));
    let rest = depth_quads % LANES;
    for (var first = LANES; first <= depth_quads; first += LANES) {
        put(is_left, lane, quad, ahead);
        ahead = fetch(is_left, at, min(first + lane, last));
        multiply(&tile, thread);
    }
    if (rest > 0u) {
        // The end of a row: what the tiles hold past it is its last quad once more.
        put(is_left, lane, quad, ahead);
        for (var depth = 0u; depth < 4u * rest; depth += 4u) { four_steps(&tile, depth, thread); }
    }
    store_tile(tile, row_tile, column_tile, thread);
}
