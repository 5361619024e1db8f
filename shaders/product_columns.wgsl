// A tile of Lᵀ R: a sum over rows of outer products. The stage gives `left(row, quad)` and `right(row, quad)`, zero
// outside, and a range of rows that is a multiple of DEPTH.

fn sum_outer(tile: ptr<function, Tile>, row_tile: u32, column_tile: u32, rows: vec2<u32>, thread: u32) {
    let quad = thread % 16u;
    let depth = thread / 16u;
    for (var first = rows.x; first < rows.y; first += DEPTH) {
        left_tile[thread] = left(first + depth, row_tile * 16u + quad);
        left_tile[thread + 128u] = left(first + depth + 8u, row_tile * 16u + quad);
        right_tile[thread] = right(first + depth, column_tile * 16u + quad);
        right_tile[thread + 128u] = right(first + depth + 8u, column_tile * 16u + quad);
        workgroupBarrier();
        multiply(tile, thread);
        workgroupBarrier();
    }
}
