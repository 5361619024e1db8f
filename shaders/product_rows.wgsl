// A tile of L Rᵀ: inner products of rows. The stage gives `left(row, k)` and `right(row, k)`, zero outside.

// Four rows by one quad of depth, turned so that depth comes first.
fn fetch(thread: u32, row_tile: u32, column_tile: u32, first: u32) {
    let quad = (thread % 64u) / 4u;
    let k = first + thread % 4u;
    let at = (thread % 4u) * 64u + quad;
    if (thread < 64u) {
        let row = row_tile * TILE + 4u * quad;
        let t = transpose(mat4x4<f32>(left(row, k), left(row + 1u, k), left(row + 2u, k), left(row + 3u, k)));
        left_tile[at] = t[0];
        left_tile[at + 16u] = t[1];
        left_tile[at + 32u] = t[2];
        left_tile[at + 48u] = t[3];
    } else {
        let row = column_tile * TILE + 4u * quad;
        let t = transpose(mat4x4<f32>(right(row, k), right(row + 1u, k), right(row + 2u, k), right(row + 3u, k)));
        right_tile[at] = t[0];
        right_tile[at + 16u] = t[1];
        right_tile[at + 32u] = t[2];
        right_tile[at + 48u] = t[3];
    }
}

fn product_rows(row_tile: u32, column_tile: u32, depth_quads: u32, thread: u32) {
    var tile = Tile();
    for (var first = 0u; first < depth_quads; first += DEPTH / 4u) {
        fetch(thread, row_tile, column_tile, first);
        workgroupBarrier();
        multiply(&tile, thread);
        workgroupBarrier();
    }
    store_tile(tile, row_tile, column_tile, thread);
}
