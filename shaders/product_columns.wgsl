// A tile of Lᵀ R: a sum over rows of outer products. The stage says where quad `quad` of row `depth` is,
// `left_at(depth, quad)` and `right_at(depth, quad)`, within a row for every column of a tile, and reads there from `row`
// rows further on, `left(at, row)` and `right(at, row)`. The range of rows is a multiple of DEPTH.

fn sum_outer(tile: ptr<function, Tile>, row_tile: u32, column_tile: u32, rows: vec2<u32>, thread: u32) {
    // Two rows of depth each, of the left and of the right.
    let quad = thread % TILE_QUADS;
    let depth = thread / TILE_QUADS;
    let left_here = left_at(depth, row_tile * TILE_QUADS + quad);
    let right_here = right_at(depth, column_tile * TILE_QUADS + quad);
    let lane = depth / 4u;
    let turn = depth % 4u;
    // What comes next is on its way from memory while this is multiplied.
    var left0 = left(left_here, rows.x);
    var left1 = left(left_here, rows.x + 8u);
    var right0 = right(right_here, rows.x);
    var right1 = right(right_here, rows.x + 8u);
    for (var first = rows.x; first < rows.y; first += DEPTH) {
        workgroupBarrier();
        left_tile[lane][turn][quad] = left0;
        left_tile[lane + 2u][turn][quad] = left1;
        right_tile[lane][turn][quad] = right0;
        right_tile[lane + 2u][turn][quad] = right1;
        workgroupBarrier();
        let next = min(first + DEPTH, rows.y - DEPTH);
        left0 = left(left_here, next);
        left1 = left(left_here, next + 8u);
        right0 = right(right_here, next);
        right1 = right(right_here, next + 8u);
        multiply(tile, thread);
    }
}
